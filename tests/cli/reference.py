"""docs/cli.md, rendered from the command line's own definitions.

Run it with `python tests/cli/reference.py --write` after a change to a command.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from ackbus.cli import app
from ackbus.cli.catalogue import CHOICES, GROUPS
from ackbus.setup.programs import PROGRAMS

FILE = Path(__file__).parents[2] / "docs" / "cli.md"

_HEAD = """\
# The command line

Each command with its words and options. `bus COMMAND --help` describes them, with an example each;
so do the manual pages that `bus completion man DIR` writes.

- Data goes to stdout, all else to stderr. Commands that print data take `--json`: one JSON object
  a line, with the names of `bus.jsonl`. Text for people shows control characters of messages as
  `\\x1b`, `\\n`, `\\u202e`.
- Options can't be abbreviated. `--` ends the options. Words and values must not begin with `-`,
  where they are names.
- Durations are seconds (`30`, `1.5`) or have a unit: `500ms`, `30s`, `10m`, `2h`, `7d`.
- The bus is found by `--dir`, `--user`, the environment variable `BUS_DIR`, or else as the nearest
  `.worker-state/` from the working directory upwards, which must be yours or root's
  ([unless you trust it](security.md#what-is-protected)). `BUS_AGENT` is the default of `--from` and
  `--agent`.
- Commands that publish [export it](how-to/watch-with-tail.md#who-keeps-the-file) to `bus.jsonl`;
  `BUS_EXPORT=off` keeps them from that.
- Errors are one line on stderr, `bus: …`; with `--json` it is an object: `error`, the exit `code`,
  and in `context` the `kind` with its facts. `-v` adds what led to them.

Exit codes:

- 0: done
- 1: error, also without a bus; of `bus request` and `bus check`, a failure reply
- 2: usage: the command line or the input breaks a rule; nothing of that batch was stored
- 3: refused or conflict: a lease that is held, an id that is taken, an ack past the end
- 4: nothing there: an empty inbox, nothing found, no such message or blob
- 5: timed out: a lease that was waited for, a bus that others kept locked
- 78: the configuration of the automation, or the file of a crew, is missing or wrong
- 130: ended by Ctrl-C; servers, workers and listeners, which end so, end with 0
- 141: the reader of the output left, as in `bus replay --from 1 | head -1`

`bus help` shows the commands to begin with, `bus help all` all of them. Words of other systems and
mistyped ones (`bus subscribe`, `bus queue lst`) are answered with what they may mean here.
`bus --version` prints the version. Left out below:

- `-v`, `--verbose`, `-h`, `--help` of every command, `--dir DIR` and `--user` of those that need a
  bus, and `--json`;
- `--config DIR`, the configuration, of the commands of the automation;
- `--by A`, the actor on record, of those of `queue`, `job`, `dead` and `limit` that change
  something;
- `--keys DIR`, the directory of keys, of `key` and `verify`;
- `--agent A`, who acts, and `--token N`, of the lease on the task, of those of `task`.

"""

#: Options that are described once above, as they are written.
_ABOVE = {"--dir", "--user", "--json", "--verbose", "--help", "[--by A]", "[--keys DIR]"}
_ABOVE |= {"[--config DIR]"}

#: Those of tasks are known by how their help begins: others have other options of these names.
_OF_TASKS = ("The agent that acts. Default", "The token of the lease on the task.")

#: Options that several commands have together, by the word for all of them.
_SETS = {
    "FILTERS": "[--type P]… [--conversation C] [--agent A] [--from A] [--to A] [--since T]"
    " [--until T]",
    "POLICY": "[--retry R] [--max-attempts N] [--backoff D] [--on-lost P] [--addressed NAME]"
    " [--ordering O] [--ageing D] [--max-running N] [--max-running-per-key N] [--dedupe-window D]"
    " [--hides H]",
}


def commands() -> Iterator[tuple[str, Any]]:
    """Every command, with the words that call it, in the order of help."""
    top: Any = typer.main.get_command(app.app)
    for name, command in top.commands.items():
        for within, inner in getattr(command, "commands", {"": command}).items():
            yield f"bus {name} {within}".rstrip(), inner


def render() -> str:
    """The text of docs/cli.md."""
    parts = [_HEAD]
    parts += [f"`{name}` stands for `{options}`.\n\n" for name, options in _SETS.items()]
    for group, names in GROUPS.items():
        found = {path: each for path, each in _folded() if path.split()[1] in names}
        nouns = dict.fromkeys(path.rpartition(" ")[0] for path in found)
        parts.append(f"## {group}\n\n")
        parts += [
            "".join(_section(noun, found)) for noun in sorted(nouns, key=lambda n: n != "bus")
        ]
    parts.append("## Which to use\n\n")
    for choices in CHOICES:
        rows = "".join(f"| `bus {name}` | {_code(use)} |\n" for name, use in choices.items())
        parts.append(f"| command | what it is for |\n|---|---|\n{rows}\n")
    return "".join(parts).rstrip("\n") + "\n"


def _section(noun: str, found: Mapping[str, Any]) -> Iterator[str]:
    """The commands that a noun has; those at the top have no heading of their own."""
    of_noun = {path: each for path, each in found.items() if path.rpartition(" ")[0] == noun}
    if of_noun and noun != "bus":
        yield f"### {noun}\n\n"
    for path, command in of_noun.items():
        yield _entry(path if noun == "bus" else path.rpartition(" ")[2], command)
    if of_noun:
        yield "\n"


def _folded() -> Iterator[tuple[str, Any]]:
    """Every command; of those that set up the programs of agents, which are alike, the first."""
    programs = [f"bus setup {name}" for name in PROGRAMS]
    for path, command in commands():
        if path not in programs:
            yield path, command
        elif path == programs[0]:
            command.help = f"Set up a program of agents: {', '.join(PROGRAMS)}."
            yield "bus setup PROGRAM", command


def _entry(name: str, command: Any) -> str:
    """The words and options of a command, and its purpose."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    last = [p for p in arguments if _metavar(p).startswith("--")]  # a command, after `--`
    words = [_word(each) for each in arguments if each not in last]
    usage = " ".join([name, *words, *_options(command), *map(_word, last)])
    purpose = _prose(re.split(r"(?<=\.) ", " ".join(command.help.split()))[0])
    return f"- `{usage}`\\\n  {purpose}\n"


def _options(command: Any) -> list[str]:
    """The options of a command, but for those that the top of the page has."""
    options = [p for p in command.params if p.param_type_name == "option"]
    spelled = " ".join(_spelling(p) for p in options if not _is_above(p))
    for name, together in _SETS.items():
        spelled = spelled.replace(together, name)
    return [spelled] if spelled else []


def _is_above(option: Any) -> bool:
    """Whether the top of the page has an option."""
    return bool(_ABOVE & {*option.opts, _spelling(option)}) or option.help.startswith(_OF_TASKS)


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _word(argument: Any) -> str:
    name = _metavar(argument)
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _spelling(option: Any) -> str:
    name = max(option.opts, key=len)
    plain = option.is_flag or option.count
    spelled = name if plain else f"{name} {option.metavar}"
    return f"{spelled}" if option.required else f"[{spelled}]" + "…" * bool(option.multiple)


def _prose(text: str) -> str:
    return _code("\n".join(line.strip() for line in text.strip().splitlines()))


def _code(text: str) -> str:
    """Set what is typed as it is typed: options, variables."""
    text = re.sub(r"(?<!\w)'(bus [^'\n]+|[^'\s]+)'", r"`\1`", text)
    return re.sub(r"(?<![\w`])(--[a-z][a-z-]*|\$?BUS_[A-Z_]+[A-Z])", r"`\1`", text)


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    FILE.write_text(render(), "utf-8")
