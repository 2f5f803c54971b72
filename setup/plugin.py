"""The plugin of opencode, which has no command hooks: a file that is entirely ours."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from .ours import is_of_setup

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

#: The line of either kind, with what is put into it.
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

    def is_of_setup(self, text: str, *, with_more: bool) -> bool:
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
    found = _COMMAND.search(text)
    try:
        words = json.loads(found[2]) if found else []
    except ValueError:
        return []
    is_line = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return words if is_line else []
