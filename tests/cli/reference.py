"""docs/cli.md, rendered from the command line's own definitions.

Run it with `python tests/cli/reference.py --write` after a change to a command.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from ackbus.cli import app
from ackbus.cli.catalogue import GROUPS

FILE = Path(__file__).parents[2] / "docs" / "cli.md"

_HEAD = """\
# The command line

`bus COMMAND --help` says the same. A test renders this page from the definitions of the commands.

- Data goes to stdout, all else to stderr. Commands that print data take `--json`: one JSON object
  a line, with the names of `bus.jsonl`. In a pipe, text is plain; on a terminal it has colours.
  Text for people shows control characters of messages as `\\x1b`, `\\n`, `\\u202e`.
- Options can't be abbreviated. `--` ends the options. Words and values must not begin with `-`,
  where they are names.
- Durations are seconds (`30`, `1.5`) or have a unit: `500ms`, `30s`, `10m`, `2h`, `7d`.
- The bus is found by `--dir`, `--user`, the environment variable `BUS_DIR`, or else as the nearest
  `.worker-state/` from the working directory upwards. One that is only found is refused where
  neither you nor root own it, unless `bus trust add` or `BUS_SAFE_DIRECTORIES` names it.
  `BUS_AGENT` is the default of `--from` and `--agent`.
- Errors are one line, `bus: …`, on stderr; `-v` adds what led to them.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | error: also when there is no bus, or it can't be used |
| 2 | usage: the command line or the input breaks a rule; nothing of that batch was stored |
| 3 | refused or conflict: a lease that is held, an id that is taken, an ack past the end |
| 4 | nothing there: an empty inbox, nothing found, no such message or blob |
| 5 | timed out: a lease that was waited for, a bus that others kept locked |
| 130 | ended by Ctrl-C; servers, workers and listeners, which end so, end with 0 |
| 141 | the reader of the output left, as in `bus replay --from 1 \\| head -1` |

Every command also takes `-v`, `--verbose` and `-h`, `--help`; those that need a bus take
`--dir DIR` and `--user`. They and `--json` are left out below. `bus --version` prints the version,
`bus completion bash` and `bus completion zsh` print what lets these shells complete commands.
"""

#: Options of every command, described once above.
_EVERYWHERE = {"--dir", "--user", "--json", "--verbose", "--help"}


#: How many groups of commands have an option that is described once for all.
_SEVERAL = 2


def commands() -> Iterator[tuple[str, Any]]:
    """Every command, with the words that call it, in the order of help."""
    top: Any = typer.main.get_command(app.app)
    for name, command in top.commands.items():
        for within, inner in getattr(command, "commands", {"": command}).items():
            yield f"bus {name} {within}".rstrip(), inner


def render() -> str:
    """The text of docs/cli.md."""
    shared = _shared()
    parts = [_HEAD, "## Options of several commands\n", "".join(shared.values())]
    group, described = "", ""
    lists: dict[str, str] = {}
    for path, command in commands():
        if (found := _group(path)) != group:
            group = found
            parts.append(f"## {group}\n")
        listed = _list(command, shared)
        described = lists.setdefault(listed, path)
        same = listed.count("\n") > 1 and described != path
        parts.append(_section(path, command, f"Options as of `{described}`.\n" if same else listed))
    return "\n".join(parts)


def _shared() -> dict[str, str]:
    """The lines of options that several groups of commands have, by their spelling."""
    owners: dict[tuple[str, str], set[str]] = {}
    for path, command in commands():
        for option in _own(command):
            owners.setdefault((_spelling(option), _line(option)), set()).add(path.split()[1])
    often = [key for key, names in owners.items() if len(names) >= _SEVERAL]
    return dict(sorted(often))


def _group(path: str) -> str:
    name = path.split()[1]
    return next(group for group, names in GROUPS.items() if name in names)


def _section(path: str, command: Any, options: str) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([path, "[OPTIONS]", *map(_word, arguments)])
    example = command.epilog.rpartition("\n")[2].strip()
    parts = [f"### {path}", "", _prose(command.help), "", f"    {usage}", ""]
    return "\n".join([*parts, *filter(None, [options]), f"Example: `{example}`", ""])


def _list(command: Any, shared: dict[str, str]) -> str:
    """A list of the arguments and options of a command; shared ones by name alone."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = _own(command)
    known = [p for p in options if shared.get(_spelling(p)) == _line(p)]
    lines = [_line(p) for p in (*arguments, *options) if p not in known]
    if known:
        lines.append(f"- Also {', '.join(f'`{max(p.opts, key=len)}`' for p in known)}.\n")
    return "".join(lines)


def _own(command: Any) -> list[Any]:
    """The options of a command, but for those of every command."""
    options = [p for p in command.params if p.param_type_name == "option"]
    return [p for p in options if not _EVERYWHERE & set(p.opts)]


def _line(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    name = _spelling(parameter) if is_option else f"`{_metavar(parameter)}`"
    return f"- {name}: {_meaning(parameter)}\n"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _word(argument: Any) -> str:
    name = _metavar(argument)
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _spelling(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len))
    if option.is_flag:
        return names
    return names[:-1] + f" {option.metavar}`"


def _meaning(parameter: Any) -> str:
    text = _code(parameter.help)
    if parameter.required and parameter.param_type_name == "option":
        text += " Required."
    default = parameter.default
    if parameter.show_default and default not in (None, False) and not parameter.required:
        text += f" Default: `{default}`."
    return text


def _prose(text: str) -> str:
    return _code("\n".join(line.strip() for line in text.strip().splitlines()))


def _code(text: str) -> str:
    """Set what is typed as it is typed: options, variables."""
    text = re.sub(r"(?<!\w)'([^'\s]+)'", r"`\1`", text)
    return re.sub(r"(?<![\w`])(--[a-z][a-z-]*|\$?BUS_[A-Z_]+[A-Z])", r"`\1`", text)


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    FILE.write_text(render(), "utf-8")
