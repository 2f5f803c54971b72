"""Manual pages of the commands, made of the definitions that --help is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .. import __version__


def pages(program: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page: `bus.1`, and one for each command or group.

    Args:
        program: the whole command line.
    """
    yield "bus.1", _page("bus", program, list(program.commands.items()))
    for name, command in program.commands.items():
        inner = list(getattr(command, "commands", {}).items())
        yield f"bus-{name}.1", _page(f"bus {name}", command, inner)


def _page(path: str, command: Any, inner: list[tuple[str, Any]]) -> str:
    first, _, rest = _prose(command.help).partition("\n\n")
    name = path.replace(" ", "-")
    lines = [
        f'.TH "{name.upper()}" 1 "" "ackbus {__version__}" "ackbus"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(first.rstrip('.'))}",
        ".SH SYNOPSIS",
        *(_usage(path, command) if not inner else [_text(f"{path} COMMAND …")]),
    ]
    if rest:
        lines += [".SH DESCRIPTION", *_paragraphs(rest)[1:]]
    if inner and path == "bus":
        lines.append(".SH COMMANDS")
        for word, each in inner:
            said = _prose(each.help).partition("\n\n")[0]
            lines += [".TP", f"\\fBbus\\-{_text(word)}\\fR(1)", _text(said)]
    elif inner:
        for word, each in inner:
            lines += [f'.SH "{path} {word}"', *_usage(f"{path} {word}", each)]
            lines += [*_paragraphs(_prose(each.help)), *_options(each), *_example(each)]
    else:
        lines += [*_options(command, ".SH OPTIONS"), *_example(command, ".SH EXAMPLE")]
    if path != "bus":
        lines += [".SH SEE ALSO", "\\fBbus\\fR(1)"]
    return "\n".join([*lines, ""])


def _usage(path: str, command: Any) -> list[str]:
    arguments = [p.metavar or p.name.upper() for p in command.params if _kind(p) == "argument"]
    return [f"\\fB{_text(path)}\\fR {_text(' '.join(['[OPTIONS]', *arguments]))}"]


def _options(command: Any, heading: str = "") -> list[str]:
    """Return the entries of the arguments and options of a command."""
    entries = []
    for parameter in sorted(command.params, key=_kind):
        if getattr(parameter, "hidden", False):
            continue
        if _kind(parameter) == "argument":
            spelled = parameter.metavar or parameter.name.upper()
        else:
            names = ", ".join([*parameter.opts, *parameter.secondary_opts])
            takes = not (parameter.is_flag or parameter.count)
            spelled = f"{names} {parameter.metavar or 'VALUE'}" if takes else names
        entries += [".TP", f"\\fB{_text(spelled)}\\fR", _text(_said(parameter))]
    return [heading, *entries] if heading and entries else entries


def _said(parameter: Any) -> str:
    """Return the help of a parameter, with the default that --help shows beside it."""
    help = parameter.help or ""
    default = getattr(parameter, "default", None)
    is_shown = getattr(parameter, "show_default", False) and default is not None
    if not is_shown or getattr(parameter, "is_flag", False) or getattr(parameter, "count", False):
        return help
    return f"{help} Default: {default}."


def _example(command: Any, heading: str = ".PP") -> list[str]:
    example = (command.epilog or "").rpartition("\n")[2].strip()
    return [heading, ".nf", _text(example), ".fi"] if example else []


def _paragraphs(text: str) -> list[str]:
    return [line for part in text.split("\n\n") for line in (".PP", _text(part))]


def _prose(help: str | None) -> str:
    """Return help as paragraphs of one line each."""
    parts = (help or "").replace("\b", "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)


def _text(text: str) -> str:
    """Return a text as troff takes it for one line of words."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped)


def _kind(parameter: Any) -> str:
    kind: str = parameter.param_type_name
    return kind
