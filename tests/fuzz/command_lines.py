"""Command lines, drawn from the definitions of the commands: right words, wrong words, any text."""

import os
import re
from collections.abc import Iterator
from typing import Any

import typer
from hypothesis import strategies as st

from ackbus.cli import app

from .commands import Line
from .strategies import TOKENS, any_json, any_text, json_bytes, lines, mutated, samples

_STDIN = samples("bus.jsonl", "publish.jsonl", "response.json", "conflict.jsonl")

#: What takes minutes by its nature, or never ends.
LEFT_OUT = {"demo", "serve", "torture", "ui"}

#: Options of commands that would wait for what never comes; given first, so others win over them.
_FORCED = {
    ("run",): ("--drain",),
    ("listen",): ("--drain", "--retry-pause", "1ms"),
    ("notify",): ("--once",),
    ("request",): ("--timeout", "1ms"),
}
_NEVER_GIVEN = {"--follow", "--help", "--watch"}

_SHORT = ["0", "1ms", "0.0001s", "10ms", "x", "-1", "1e3", "", "٣", "1.5.5"]
_NEVER = ["x", "", "-1", "5 parsecs"]
#: Options that say how long to wait: none of these values is too long for a case.
_WAITS = {
    **dict.fromkeys(("--wait", "--timeout"), _SHORT),
    "--every": _NEVER,
    "--retry-pause": _SHORT,
    "--backoff": _SHORT,
    "--concurrency": ["1", "2", "0", "-1", "x", "1.0", "9" * 30, "9999999"],
}

_REF = "sha256-" + "0" * 64
_NUMBERS = ["0", "1", "3", "7", "-1", "99999", "9223372036854775807", "9223372036854775808"]
_DURATIONS = ["0s", "1ms", "30", "1.5h", "7d", "999999999d", "5x", "-1s"]
_TIMES = ["2026-01-10T14:00:00Z", "2026-01-10", "10m", "0", "253402300800000", "yesterday"]
_NAMES = ["alice", "bob", "worker-1", "lead", "nobody", "Zoë"]
_TYPES = ["note", "task.assign", "task.*", "review.request", ">", "*", "a..b", "t.x", "[a]?"]
_FILES = ["notes.jsonl", "value.json", "-", ".", "missing", ".worker-state/bus.jsonl", "new/x"]

#: What stands for a parameter, by what help calls it; the words of all are tried everywhere.
_WORDS: dict[str, list[str]] = {
    "AGENT": _NAMES,
    "NAME": ["review.request", "build", "new", "nothing here"],
    "ID": ["m-1", "m-3", "m-8", "1", "5", "new-id"],
    "SEQ": _NUMBERS,
    "TOKEN": _NUMBERS,
    "TYPE": _TYPES,
    "DURATION": _DURATIONS,
    "TIME": _TIMES,
    "FILE": _FILES,
    "DIR": [".worker-state", "new", "../other", "notes.jsonl", ""],
    "REF": [_REF, _REF[:-1], "../../bus.db", "sha256-"],
    "JSON": ['{"a":1}', "[]", "null", "@value.json", "@missing", "-", '{"a":', "NaN", "9" * 30],
    "K=V": ["a=1", "available_at_ms=5", "dedupe_key=", "=x", "x", "meta=1", "dedupe_window_ms=x"],
    "OURS=THEIRS,": ["type=kind|note", "payload=body", "headers.*=*", "a=b", "=,="],
    "PATHS": ["src/*.py", "docs/a.md", "**", "../x", "[", "a" * 1100],
    "REV": ["HEAD", "HEAD..HEAD", "main..", "--all", "HEAD~9", "HEAD^{tree}"],
    "WORDS": ["third", "fir*", '"', "*", "disk full"],
    "LINE": ["bus publish --to al", "bus ", "bus lease renew ", 'bus "'],
    "SIZE|off": ["off", "1kB", "10MB", "0", "1.5 GiB", "x"],
    "CHOICE": ["raw", "json", "failures", "asked", "requeue", "fifo", "priority", "any", "now"],
    "STATE": ["queued", "dead", "failed", "interactive", "normal", "warn", "block", "svg"],
    "TEXT": ["{}", "{", "{0}", "%s", "[{}] ", ""],
}

_ALIASES = {
    "A": "AGENT",
    "B": "AGENT",
    "G": "AGENT",
    "Q": "NAME",
    "C": "ID",
    "CONVERSATION": "ID",
    "ID|SEQ": "ID",
    "D": "DURATION",
    "S": "DURATION",
    "T": "TIME",
    "P": "TYPE",
    "F": "FILE",
    "N": "SEQ",
    "PATH": "FILE",
    "REV|REV..REV": "REV",
    "BODY": "TEXT",
    "X": "SEQ",
    "M": "STATE",
    "O": "CHOICE",
    "R": "CHOICE",
    "K": "ID",
    "REMOTE": "REV",
}
_EVERYWHERE = sorted({word for words in _WORDS.values() for word in words})

_any_word = (
    any_text
    | st.sampled_from(TOKENS).map(lambda token: token.decode("utf-8", "surrogateescape"))
    | json_bytes(any_json).map(lambda text: text.decode("utf-8", "surrogateescape"))
    | mutated([word.encode() for word in _EVERYWHERE], 2).map(
        lambda word: word.decode("utf-8", "surrogateescape")
    )
)


def _commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, with the words that call it."""
    top: Any = typer.main.get_command(app.app)
    for name, command in top.commands.items():
        for within, inner in getattr(command, "commands", {"": command}).items():
            if name not in LEFT_OUT:
                yield (name, within) if within else (name,), inner


_COMMANDS = list(_commands())


def _values(parameter: Any) -> st.SearchStrategy[str]:
    """The values of a parameter."""
    names = set(parameter.opts)
    for option, words in _WAITS.items():
        if option in names:
            return st.sampled_from(words)
    metavar = re.sub(r"[\[\].]", "", str(parameter.metavar or ""))
    right = st.sampled_from(_WORDS.get(_ALIASES.get(metavar, metavar), _EVERYWHERE))
    return st.one_of(right, right, st.sampled_from(_EVERYWHERE), _any_word)


def _option(parameter: Any) -> st.SearchStrategy[list[str]]:
    names = st.sampled_from(parameter.opts)
    if parameter.is_flag:
        return names.map(lambda name: [name])
    pairs = st.tuples(names, _values(parameter))
    return pairs.map(list) | pairs.map(lambda pair: [f"{pair[0]}={pair[1]}"])


def _of_command(words: tuple[str, ...], command: Any) -> st.SearchStrategy[list[str]]:
    """Lines of one command: its words and options, most of them fitting."""
    runs = next((p for p in command.params if p.metavar == "-- CMD..."), None)
    arguments = [
        st.lists(_values(p), max_size=3 if p.nargs == -1 else 1, min_size=int(p.required))
        for p in command.params
        if p.param_type_name == "argument" and p is not runs
    ]
    options = [
        _option(p)
        for p in command.params
        if p.param_type_name == "option" and not _NEVER_GIVEN & set(p.opts)
    ]
    parts = st.lists(st.one_of(options), max_size=5) if options else st.just([])
    odd = st.just([]) | st.just([]) | st.just([]) | st.lists(_any_word, max_size=2)
    cmd = st.sampled_from(
        [["true"], ["false"], ["cat"], ["cat", "value.json"], ["missing"], [], ["echo", "{}"]]
    )
    return st.builds(
        lambda arguments, parts, odd, cmd: [
            *(*words, *_FORCED.get(words, ())),
            *(word for part in parts for word in part),
            *(word for part in arguments for word in part),
            *odd,
            *(["--", *cmd] if runs else []),
        ],
        st.tuples(*arguments),
        parts,
        odd,
        cmd,
    )


def harmless(word: str) -> str:
    """A word that leads to no file outside the copy, and does not make a command wait for ever."""
    word = re.sub("[\0\ud800-\udc7f\udd00-\udfff]", "", word)[:20_000]  # no argument has these
    word = re.sub(r"(^|[=@:,])[/~]", r"\1x", word)
    if word.count("..") > 2:
        word = word.replace("..", ".")
    return "x" if re.match(r"-[a-zA-Z]*f|--follow", word) else os.fsdecode(os.fsencode(word))


command_lines = st.builds(
    lambda words, stdin: Line(tuple(map(harmless, words)), stdin),
    st.one_of([_of_command(*each) for each in _COMMANDS])
    | st.lists(
        st.sampled_from([*(w for words, _ in _COMMANDS for w in words), "-h", "--"]) | any_text
    ),
    st.sampled_from([b"", b'{"type":"note"}', b"text"]) | lines | mutated(_STDIN),
)

publish_lines = st.builds(
    lambda words, stdin: Line(("publish", "--jsonl", *words), stdin),
    st.sampled_from([("--json",), (), ("--from", "alice"), ("--strict",)]),
    lines | mutated(_STDIN),
)
