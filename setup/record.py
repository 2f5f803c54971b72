"""The records of what setup put into the files of other programs, and copies of what it took.

They tell `--remove` which entries and files setup made, whatever was changed since. They lie in the
user's configuration directory, outside of every project: a bus may be deleted before its setup.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from ..schema.directory.enclosure import Enclosure
from ..schema.directory.layout import config_directory
from ..schema.errors import InvalidInput

# Our entries in the configuration of other programs are recognized by their content: their place,
# their name and their layout prove nothing, since people write such entries, too.

#: The name of our entry, in every configuration.
ENTRY = "ackbus"


#: The options that some version of setup wrote, each with whether it has a value.
_OPTIONS = {
    "--agent": True,
    "--dir": True,
    "--user": False,
    "--profile": True,
    "--bodies": False,
    "--no-bodies": False,
}


def is_of_setup(words: Sequence[str], *verbs: str) -> bool:
    """Whether a command line is one that some version of setup wrote.

    It runs `bus` by its path, with these verbs and a named agent, and has no unknown option.
    """
    if not words or not os.path.isabs(words[0]) or os.path.basename(words[0]) != "bus":
        return False
    if tuple(words[1 : 1 + len(verbs)]) != verbs:
        return False
    rest, used_options = list(words[1 + len(verbs) :][::-1]), set[str]()
    while rest:
        option = rest.pop()
        if option not in _OPTIONS or option in used_options or (_OPTIONS[option] and not rest):
            return False
        used_options.add(option)
        if _OPTIONS[option]:
            rest.pop()
    return "--agent" in used_options


def has_no_extra_members(entry: Mapping[str, Any], ours: Mapping[str, Any], *but: str) -> bool:
    """Whether an entry has only members that setup writes, as it writes them.

    Args:
        entry: the entry as it stands.
        ours: the entry as setup writes it.
        but: members whose values may differ.
    """
    return all(key in ours and (key in but or value == ours[key]) for key, value in entry.items())


#: The line for a person who has a server of our name.
SERVER_REFUSAL = f"its entry {ENTRY!r} is not as 'bus setup' writes it; rename it, and try again"


def is_server_of_setup(entry: object, ours: Mapping[str, Any], *, additions_allowed: bool) -> bool:
    """Whether a server is one that some version of setup wrote.

    Args:
        entry: the server as it stands.
        ours: the server as setup writes it now.
        additions_allowed: whether people may have added members to it.
    """
    if not isinstance(entry, dict) or not is_of_setup(words_of(entry), "mcp"):
        return False
    return additions_allowed or has_no_extra_members(entry, ours, "command", "args")


def words_of(entry: object) -> list[str]:
    """Return the command line of an entry of any program; empty when it has none."""
    command = entry.get("command") if isinstance(entry, dict) else None
    arguments = entry.get("args", []) if isinstance(entry, dict) else []
    words = [command] if isinstance(command, str) else command
    if not isinstance(words, list) or not isinstance(arguments, list):
        return []
    return [str(word) for word in (*words, *arguments)]


def option_in(words: list[str], option: str) -> str | None:
    """Return the value of an option in a command line, or None."""
    for word, after in pairwise((*words, "")):
        if word == option:
            return after or None
        if word.startswith(f"{option}="):
            return word.partition("=")[2] or None
    return None


def bus_of(words: list[str]) -> str | None:
    """Return the option that names the bus in a command line; None: the working directory."""
    return "--user" if "--user" in words else option_in(words, "--dir")


def is_bus_mcp(words: list[str]) -> bool:
    """Whether a command line is that of our server."""
    return bool(words) and os.path.basename(words[0]) == "bus" and words[1:2] == ["mcp"]


def hook_mark(event: str, program: str) -> str:
    """Return the words that only the command of this hook has."""
    return f" hook {event} {program} "


def runs_hook(command: object, mark: str) -> bool:
    """Whether a command line has the hook of a mark in it, ours or a person's."""
    bus = rf"(?:^|[\s/'\"])bus['\"]?{re.escape(mark.rstrip())}(?:$|[\s'\";|&])"
    return isinstance(command, str) and re.search(bus, command) is not None


def is_hook_of_setup(command: object, mark: str) -> bool:
    """Whether a command line of a hook is one that some version of setup wrote."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:  # a quote without its end
        return False
    return is_of_setup(words, *mark.split()) and hook_command(words) == command


def hook_command(words: list[str]) -> str:
    """Return a command line as a shell takes it, which is how hooks are run."""
    return shlex.join(words)


#: The states of a file before setup: not there, empty, with text, or unknown.
Origin = Literal["none", "empty", "text", "unknown"]

#: How many copies of what was taken out are kept.
_MOST_COPIES = 100

#: How many digits the number of a copy has, so that names sort in order of time.
_DIGITS = 8


@dataclass(frozen=True)
class RecordedEntry:
    """An entry that setup put into a file.

    Attributes:
        written: its text, as setup left it.
    """

    written: str


@dataclass(frozen=True)
class Record:
    """The record of one file.

    Attributes:
        origin: what was there before setup.
        entries: what setup put in, by its keys.
    """

    origin: Origin = "unknown"
    entries: Mapping[str, RecordedEntry] = field(default_factory=dict)


class RecordFile:
    """The place of the record of one file.

    Args:
        path: the file that the record is of.
    """

    def __init__(self, path: str) -> None:
        self._of = os.path.realpath(path)
        name = hashlib.sha256(os.fsencode(self._of)).hexdigest()[:32]
        self._path = os.path.join(_folder(), f"{name}.json")

    def read(self) -> Record:
        """Return the record; an empty one where there is none.

        Raises:
            InvalidInput: the record can't be understood.
        """
        try:
            with open(self._path, encoding="utf-8") as file:
                document = json.load(file)
            entries = {
                key: RecordedEntry(entry["written"]) for key, entry in document["entries"].items()
            }
            return Record(document["origin"], entries)
        except (FileNotFoundError, NotADirectoryError):
            return Record()
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(
                f"{self._path} is no note of 'bus setup'; move it away, and try again"
            ) from error

    def write(self, record: Record) -> None:
        """Replace the record; one without entries is removed.

        Raises:
            OSError: it can't be written.
        """
        if record.entries:
            entries = {key: asdict(entry) for key, entry in record.entries.items()}
            _write(self._path, {"file": self._of, "origin": record.origin, "entries": entries})
            return
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self._path)
        with suppress(OSError):  # there are other records, or keys
            os.rmdir(_folder())
            os.rmdir(config_directory())

    def keep(self, texts: Sequence[str]) -> str:
        """Keep a copy of what is taken out of the file, and return where that is.

        Raises:
            OSError: it can't be written.
        """
        copies = sorted(os.listdir(_copies())) if os.path.isdir(_copies()) else []
        number = 1 + max(
            (int(name[:_DIGITS]) for name in copies if name[:_DIGITS].isdigit()), default=0
        )
        name = os.path.basename(self._of)
        path = os.path.join(_copies(), f"{number:0{_DIGITS}}-{name}.json")
        _write(path, {"file": self._of, "removed": list(texts)})
        for old in copies[: max(0, len(copies) + 1 - _MOST_COPIES)]:
            with suppress(OSError):
                os.unlink(os.path.join(_copies(), old))
        return path


def _folder() -> str:
    return os.path.join(config_directory(), "setup")


def _copies() -> str:
    return os.path.join(_folder(), "removed")


def _write(path: str, value: object) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    os.makedirs(config_directory(), mode=0o700, exist_ok=True)
    own = Enclosure(config_directory(), is_home=True)
    with own.spot(path, make=0o700) as spot:
        spot.replace(text.encode())


# The plugin of opencode, which has no command hooks: a file that is entirely ours.

#: The file as it is, but for the command.
_TEMPLATE = Path(__file__).with_name("opencode.js")

#: The beginnings of the hashes of the file, as each version has it.
_VERSIONS = frozenset(
    {
        "0d1a1bdc296697d0",
        "141cee2c4de325a6",
        "06242b61cb5dc269",
        "47320ab0d62ce0f9",
        "1ae1dd63df12f68f",
        "8e1ebe0d7cf25232",
    }
)

#: The line of a plugin that wakes an idle agent.
WAKES = "const isWoken = true"

#: The line that says whether the plugin wakes an idle agent, and its value.
_IS_WOKEN = re.compile(r"^(const isWoken = )(true|false)", re.MULTILINE)

_COMMAND = re.compile(r"^(const \[bus, \.\.\.options\] = )(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class PluginFile:
    """A file that is entirely ours."""

    text: str

    @classmethod
    def running(cls, command: list[str], *, wakes: bool) -> PluginFile:
        """Return the plugin that runs `bus` with these options, and may wake an idle agent."""
        words = json.dumps(command, ensure_ascii=False)
        text = _TEMPLATE.read_text(encoding="utf-8").rstrip()
        return cls(text.replace("IS_WOKEN", json.dumps(wakes)).replace("COMMAND", words))

    def put(self, text: str) -> str:
        """Return our text."""
        return text if text.rstrip() == self.text else self.text + text[len(text.rstrip()) :]

    def take(self, text: str) -> str:
        """Return an empty text."""
        return ""

    @property
    def key(self) -> str:
        """The name of the file's one entry."""
        return "plugin"

    @property
    def refusal(self) -> str:
        """The line for a person who has a file in its place."""
        return "it is not as 'bus setup' writes it; rename it, and try again"

    def span(self, text: str) -> tuple[int, int] | None:
        """Return where the file's text is; None where it has none."""
        return (0, len(text.rstrip())) if text.strip() else None

    def is_of_setup(self, text: str, *, additions_allowed: bool) -> bool:
        """Whether the file is as some version of setup writes it."""
        words = _words_in(text)
        if not is_of_setup([*words[:1], "mcp", *words[1:]], "mcp"):
            return False
        template = _IS_WOKEN.sub(r"\1IS_WOKEN", _COMMAND.sub(r"\1COMMAND", text.strip()))
        return hashlib.sha256(template.encode()).hexdigest()[:16] in _VERSIONS

    def found_in(self, text: str) -> PluginFile:
        """Return the plugin in the text."""
        return replace(self, text=text.rstrip()) if text.strip() else self

    def command_in(self, text: str, event: str = "stop") -> str | None:
        """Return the command line that the plugin in a text runs at an event, or None."""
        words = _words_in(text)
        return shlex.join([words[0], "hook", event, "opencode", *words[1:]]) if words else None


def _words_in(text: str) -> list[str]:
    """Return the command and the options that a plugin has; empty where they can't be read."""
    match = _COMMAND.search(text)
    try:
        words = json.loads(match[2]) if match else []
    except ValueError:
        return []
    is_line = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return words if is_line else []
