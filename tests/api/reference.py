"""docs/reference.md, rendered from the public names, their signatures and their docstrings.

Run it with `python tests/api/reference.py --write` after a change to the public API.
"""

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, is_typeddict

import ackbus
from ackbus import errors, model

FILE = Path(__file__).parents[2] / "docs/reference.md"

_HEAD = """\
# The Python API

By topic: {topics}.

The how-tos for [agents](how-to/agents-in-python.md) and [workers](how-to/workers-in-python.md) show
the use; `help(ackbus.Queue)` says more: every argument, every error.

- All is reached from a `Bus`: `bus.inbox("me")`, `bus.queue("jobs")`, `bus.tasks`. The classes are
  for annotations, and may be made directly; where they take a `LocalBus`, they take a `Bus`.
- Import a name from `ackbus`, or from `ackbus.model` where that stands beside it; errors and
  warnings are in `ackbus.errors`.
- A wrong type is found by mypy and pyright, and refused by the call with `InvalidInput`.
- `_s` are seconds, `_ms` epoch milliseconds. `wait_s` is how long a call waits, `timeout_s` after
  how long it raises `TimedOut`; None is for ever. `after_seq` is not included, `upto_seq` is.
- `X` (`_async`) says that `X_async` is the same for coroutines. What a record is made with are its
  attributes; `record()` is its JSON.
"""


@dataclass(frozen=True)
class Topic:
    """A section of the page: what of `Bus` belongs to it, and which other names."""

    title: str
    of_bus: str
    names: str


TOPICS = (
    Topic(
        "Messages",
        "init open close directory now_ms transaction publish publish_async publish_many get read"
        " follow follow_async search stats settings backup_made_at_ms",
        "Bus Draft ABSENT Message Priority Receipt Found Stats Settings"
        " BusOptions MessageFields ReadFilters SearchFilters Durability",
    ),
    Topic(
        "Inboxes",
        "inbox session read_receipts",
        "Inbox Session Parked ReadReceipt InboxOptions ReadState Trace Step Work",
    ),
    Topic(
        "Queues",
        "create_queue queue worker",
        "Queue Policy PolicyRules work_headers Worker WorkerOptions NeverRetry RetryLater Job"
        " JobControl DeadLetters Claim Outcome QueueInfo QueueStats Spread ClaimRecord Act"
        " Start JobState JobGate ClaimStatus EndStatus",
    ),
    Topic(
        "Requests",
        "request request_async send_request answer",
        "Request Answer ReplyTypes as_completed as_completed_async wait_all wait_all_async"
        " AnswerState",
    ),
    Topic(
        "Leases",
        "leases reservations heartbeats heart limits",
        "Leases Lease Reservations Reservation ReserveResult Conflict ReservationMode Heartbeats"
        " Heart Heartbeat Liveness WaitingLimits WaitingLimit LimitKind",
    ),
    Topic(
        "Tasks",
        "tasks spawn_task mend_task_tree finish_task clean_tasks",
        "Tasks TaskSpec NewTask Task NewJob TaskJob PlannedJob Blocked Cleaned TaskState Review"
        " OnLost",
    ),
    Topic("Automation", "", "JsonCommand RawCommand"),
    Topic("Blobs", "blobs collect_blobs", "BlobStore"),
    Topic("Export", "exporter import_jsonl chain", "Exporter FieldMap ImportReport Chain Link"),
)

#: What a reader of a topic has to know before its names.
_WORDS_ABOUT = {
    "Leases": "Rights that end, and signs of life: leases by name, reservations of files, beats of"
    " agents, limits of what may wait.",
    "Automation": "Plugins, schedules, routes and webhooks are configured in files"
    " ([how to](how-to/automate.md)), and have no classes here. These are the two"
    " [contracts](worker-protocol.md) by which a worker of your own runs a command.",
    "Export": "`bus.jsonl`, imports, and the hash chain over the log.",
}

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

#: Classes that programs get from calls, and do not make.
_NOT_MADE = {"Bus", "Chain", "Heartbeats", "Leases", "Message", "Reservations", "Settings"}


def render() -> str:
    """Return the page."""
    titles = [*(topic.title for topic in TOPICS), "Errors"]
    links = ", ".join(f"[{title.lower()}](#{title.lower()})" for title in titles)
    parts = [_HEAD.format(topics=links)]
    for topic in TOPICS:
        parts.append(f"\n## {topic.title}\n\n")
        if about := _WORDS_ABOUT.get(topic.title):
            parts.append(f"{about}\n\n")
        parts += _of_bus(topic.of_bus.split())
        parts += _listed(topic.names.split())
    parts.append("\n## Errors\n\n")
    parts += _errors()
    return "".join(parts)


def _of_bus(members: list[str]) -> Iterator[str]:
    """Yield the calls and attributes of a bus that belong to a topic."""
    calls = {name: vars(_owner(name)).get(name) for name in members}
    for name in _without_twins(calls):
        yield f"- {_member(name, calls, 'Bus' if name in ('init', 'open') else 'bus')}\n"


def _owner(member: str) -> type:
    """Return the class that defines a member of `Bus`, or `Bus`, for what its makers set."""
    owners = (kind for kind in ackbus.Bus.__mro__ if member in vars(kind))
    return next(owners, ackbus.Bus)


def _listed(names: list[str]) -> Iterator[str]:
    own = {name: PUBLIC[name] for name in names}
    for name in _without_twins(own):
        yield from (f"{line}\n" for line in _described(name, own))


def _errors() -> Iterator[str]:
    """Yield the errors by their base, then the warnings, each with when it is raised."""
    by_base: dict[str, list[str]] = {}
    for name in sorted(errors.__all__, key=_place):
        bases = [base.__name__ for base in PUBLIC[name].__bases__]
        by_base.setdefault(" and ".join(f"`{base}`" for base in bases), []).append(name)
    yield "All but the warnings are `AckbusError`. The exit code is that of a command.\n"
    for bases, names in by_base.items():
        yield f"\nOf {bases}:\n\n"
        for name in names:
            code = getattr(PUBLIC[name], "exit_code", None)
            exits = "" if code is None else f" (exit code {code})"
            yield f"- **{name}**{exits}: {_paragraph(PUBLIC[name])}\n"


def _place(name: str) -> tuple[bool, int]:
    """Return the place of an error: the root first, each after its bases, warnings last."""
    kind = PUBLIC[name]
    return issubclass(kind, Warning), len(kind.__mro__)


def _described(name: str, beside: Mapping[str, Any]) -> Iterator[str]:
    found: Any = beside[name]
    if inspect.isfunction(found):
        yield f"- `{_call(name, found)}`{_twin_mark(name, beside)}: {_paragraph(found)}"
    elif is_typeddict(found):
        yield f"- **{name}**{_module(name)}: {_code(found.__annotations__)}"
    elif not inspect.isclass(found):
        words = [repr(word) if isinstance(word, str) else "a seq" for word in _words(found)]
        about = _code(words) if words else "no payload at all"
        yield f"- **{name}**{_module(name)}: {about}"
    else:
        yield f"- **{name}**{_module(name)}: {_paragraph(found)}"
        if found is not ackbus.Bus:
            yield from _members(name, found)


def _module(name: str) -> str:
    """Return the module that a name is imported from, if that is not the package itself."""
    return " (`ackbus.model`)" if name in model.__all__ else ""


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
    for member in _without_twins(own):
        call = getattr(own[member], "__func__", own[member])
        if inspect.isfunction(call) and call.__qualname__ not in INTERNAL and member != "record":
            yield f"  - {_member(member, own)}"


def _member(name: str, beside: Mapping[str, Any], owner: str = "") -> str:
    """Return a call or an attribute of a class, with the first paragraph of its docstring."""
    value = getattr(beside[name], "__func__", beside[name])
    dotted = f"{owner}.{name}" if owner else name
    if inspect.isfunction(value):
        return f"`{_call(dotted, value)}`{_twin_mark(name, beside)}: {_paragraph(value)}"
    about = _paragraph(value) if isinstance(value, property) else _attribute(name)
    return f"`{dotted}`: {about}"


def _attribute(name: str) -> str:
    """Return what the docstrings of `Bus` and its bases say about an attribute."""
    text = "\n".join(inspect.getdoc(kind) or "" for kind in ackbus.Bus.__mro__)
    about = re.search(rf"^    {name}: (.*(?:\n     .*)*)", text, re.M)
    assert about, f"no docstring of Bus says what {name} is"
    return " ".join(about[1].split())


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


def _paragraph(described: object) -> str:
    """Return the first paragraph of a docstring, as one line; its lists stay inside the line."""
    text = inspect.getdoc(described) or ""
    assert text, f"{described} has no docstring"
    return " ".join(text.partition("\n\n")[0].split())


def _code(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__" and "--write" in sys.argv:
    FILE.write_text(render(), "utf-8")
