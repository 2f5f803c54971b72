"""docs/reference.md, rendered from the public names, their signatures and their docstrings.

Run it with `python tests/api/reference.py --write` after a change to the public API.
"""

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, is_typeddict

import ackbus
from ackbus import errors, model

FILE = Path(__file__).parents[2] / "docs/reference.md"

_HEAD = """\
# The Python API

All public names, by the module that they are imported from. Docstrings say more
(`help(ackbus.Queue)`); the how-tos for [agents](how-to/agents-in-python.md) and
[workers](how-to/workers-in-python.md) show the use.

- All is reached from a `Bus`: `bus.inbox("me")`, `bus.queue("jobs")`, `bus.tasks`. The classes are
  for annotations, and may be made directly; where they take a `LocalBus`, they take a `Bus`.
- A wrong type is found by mypy and pyright, and refused by the call with `InvalidInput`.
- `_s` are seconds, `_ms` epoch milliseconds. `wait_s` is how long a call waits, `timeout_s` after
  how long it raises `TimedOut`; None is for ever. `after_seq` is not included, `upto_seq` is.
- `X` (`_async`) says that `X_async` is the same for coroutines. What a record is made with are its
  attributes; `record()` is its JSON.
"""

#: All public names but the version, with what they stand for.
PUBLIC: dict[str, Any] = {
    name: getattr(module, name)
    for module in (ackbus, model, errors)
    for name in module.__all__
    if name != "__version__"
}

#: What only this package calls of its public classes.
INTERNAL = {
    "ClaimRecord.state",
    "ContractCommand.stop",
    "Draft.prepare",
    "ImportReport.skip",
    "JsonCommand.do",
    "Outcome.row",
    "Policy.backoff_ms",
    "Policy.of_row",
    "Policy.rank_ms",
    "Policy.refuse_others",
    "Policy.row",
    "Policy.said",
    "Policy.takes",
    "Queue.take",
    "RawCommand.do",
    "ReplyTypes.require",
    "Request.published",
    "Spread.of",
    "Table.of",
}

#: How long a line of short calls may be, in characters.
_LINE = 100

#: Classes that programs get from calls, and do not make.
_NOT_MADE = {"Bus", "Chain", "Heartbeats", "Leases", "Message", "Reservations", "Settings"}


def render() -> str:
    """Return the page."""
    parts = [_HEAD]
    for module in (ackbus, model, errors):
        parts.append(f"\n## From `{module.__name__}`\n")
        for heading, homes in module._NAMES.items():
            names = [name for text in homes.values() for name in text.split()]
            parts.append(f"\n### {heading}\n\n")
            parts += _errors(names) if heading == "Errors" else _listed(names)
    return "".join(parts)


def _listed(names: list[str]) -> Iterator[str]:
    own = {name: PUBLIC[name] for name in names}
    yield from (f"{line}\n" for name in _without_twins(own) for line in _described(name, own))


def _errors(names: list[str]) -> Iterator[str]:
    """Yield the errors by what they are; their docstrings say when each is raised."""
    yield "`help(ackbus.errors.ClaimLost)` says when one is raised. By base:\n\n"
    found: dict[str, list[str]] = {}
    for name in names:
        bases = [base.__name__ for base in PUBLIC[name].__bases__]
        found.setdefault(" and ".join(f"`{base}`" for base in bases), []).append(f"`{name}`")
    for of, of_base in found.items():
        yield f"- {of}: {', '.join(of_base)}\n"


def _described(name: str, beside: Mapping[str, Any]) -> Iterator[str]:
    found: Any = beside[name]
    if inspect.isfunction(found):
        yield f"- `{_call(name, found)}`{_twin_mark(name, beside)}: {_first_line(found)}"
    elif is_typeddict(found):
        yield f"- **{name}**: {_code(found.__annotations__)}"
    elif not inspect.isclass(found):
        words = [repr(word) if isinstance(word, str) else "a seq" for word in _words(found)]
        yield f"- **{name}**: {_code(words)}" if words else f"- **{name}**: no payload at all"
    elif issubclass(found, BaseException):
        bases = [base.__name__ for base in found.__bases__ if base.__name__ != "AckbusError"]
        of = f" ({', '.join(bases)})" if bases else ""
        yield f"- **{name}**{of}: {_first_line(found)}"
    else:
        yield f"- **{name}**: {_first_line(found)}"
        yield from _members(name, found)


def _without_twins(calls: Mapping[str, Any]) -> list[str]:
    """Return the names, but for those of forms for coroutines that take what the plain ones do."""
    return [name for name in calls if not _is_twin(name, calls)]


def _twin_mark(name: str, beside: Mapping[str, Any]) -> str:
    twin = f"{name}_async"
    return " (`_async`)" if twin in beside and _is_twin(twin, beside) else ""


def _is_twin(name: str, beside: Mapping[str, Any]) -> bool:
    plain = name.removesuffix("_async")
    if plain == name or plain not in beside:
        return False
    return _taken(beside[name]) == _taken(beside[plain])


def _taken(call: Any) -> set[str]:
    """Return the names of what a call takes, those of passed-on options too."""
    taken = set()
    for parameter in inspect.signature(getattr(call, "__func__", call)).parameters.values():
        options = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        names = PUBLIC[options[1]].__annotations__ if options else [parameter.name]
        taken.update(names)
    return taken


def _words(found: object) -> list[object]:
    """Return the alternatives of words, those of inner ones too."""
    return [word for each in get_args(found) for word in (_words(each) or [each])]


def _members(name: str, kind: type) -> Iterator[str]:
    """Yield the ways to make a class, its attributes, and its calls."""
    own = {
        member: value
        for base in reversed(kind.__mro__)
        if base.__module__.startswith("ackbus")
        for member, value in vars(base).items()
        if not member.startswith("_")
    }
    section = (inspect.getdoc(kind) or "").partition("Attributes:")[2].partition("\n\n")[0]
    listed = re.findall(r"^    (\w+(?:, \w+)*): ", section, re.M)
    own |= {member: None for line in listed for member in line.split(", ") if member not in own}
    is_record = hasattr(kind, "__dataclass_fields__")
    is_made = "__init__" in vars(kind) and name not in _NOT_MADE and not is_record
    if is_made:
        yield f"  - `{_call(name, vars(kind)['__init__'])}`"
    attributes = [
        member
        for member, value in own.items()
        if not hasattr(getattr(value, "__func__", value), "__code__")
    ]
    if is_made and set(attributes) <= _taken(vars(kind)["__init__"]):
        attributes = []  # they are what it is made with
    if attributes:
        yield f"  - {_code(attributes)}"
    calls = []
    for member in _without_twins(own):
        call = getattr(own[member], "__func__", own[member])
        if inspect.isfunction(call) and call.__qualname__ not in INTERNAL:
            calls.append(f"`{_call(member, call)}`{_twin_mark(member, own)}")
    for line in _joined(calls):
        yield f"  - {line}"


def _joined(calls: list[str]) -> list[str]:
    """Join the calls of a class to lines, short ones beside each other."""
    lines: list[str] = []
    for call in calls:
        if lines and len(lines[-1]) + len(call) < _LINE:
            lines[-1] += f", {call}"
        else:
            lines.append(call)
    return lines


def _call(name: str, call: Any) -> str:
    """Return the signature of a call: its parameters with their defaults, and its result."""
    signature = inspect.signature(call)
    shown = []
    kind: object = None
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and kind not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            shown.append("*")
        kind = parameter.kind
        options = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        text = f"**{options[1]}" if options else parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            text = f"*{parameter.name}"
        elif parameter.default is not parameter.empty:
            text += f"={_default(parameter.default)}"
        shown.append(text)
    result = str(signature.return_annotation)
    is_plain = result in ("None", "Self", "Bus") or name[0].isupper() or name == "record"
    arrow = "" if is_plain else f" → {result}"
    return f"{name}({', '.join(shown)}){arrow}"


def _default(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "…" if callable(value) else str(value) if isinstance(value, int) else repr(value)


def _first_line(found: object) -> str:
    text = inspect.getdoc(found) or ""
    line = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.:]) ", line)[0].rstrip(".:")


def _code(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__" and "--write" in sys.argv:
    FILE.write_text(render(), "utf-8")
