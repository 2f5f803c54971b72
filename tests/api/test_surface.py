"""The public names: each that a signature, an attribute or a Raises section mentions is one."""

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import pytest

import ackbus
from ackbus.bus.log.log import Criteria
from ackbus.bus.reservations.reservations import EXCLUSIVE, SHARED
from ackbus.bus.waiting_limits import INBOX, QUEUE
from ackbus.schema.sqlite.database import Database
from ackbus.schema.sqlite.settings import DURABILITIES
from ackbus.subscribers.answers import ANSWERED, FAILURE, PENDING, SUCCESS, TIMED_OUT
from ackbus.subscribers.jobs import jobs
from ackbus.subscribers.jobs.claims import ACTIVE, ENDS, LOST
from ackbus.subscribers.jobs.policy import CHOICES

from . import reference

ROOT = Path(ackbus.__file__).parent

#: Classes in signatures that only this package makes and passes on.
INTERNAL = {
    *(
        "Database",
        "LocalBus",
        "Engine",
        "Folder",
        "Log",
        "HasEngine",
        "PayloadSource",
        "MessageRow",
    ),  # how a bus is stored
    *("AttemptResult", "Supervisors"),  # how a worker runs a command
}


def public_objects() -> Iterator[tuple[str, object]]:
    """Every public name with its object, but for the version and ABSENT."""
    for name, found in reference.PUBLIC.items():
        if inspect.isclass(found) or inspect.isfunction(found):
            yield name, found


def names_of_package() -> set[str]:
    """The names of all classes and type aliases that modules of the package define."""
    found = set()
    for path in ROOT.rglob("*.py"):
        if path.relative_to(ROOT).parts[0] not in ("tests", "bench", "docs", "examples", ".venv"):
            tree = ast.parse(path.read_text("utf-8"))
            found |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return {name for name in found if not name.startswith("_")}


def mentioned(found: object) -> Iterator[str]:
    """The names in the signatures of a public object, and in its Raises and Warns sections."""
    members = [found]
    if inspect.isclass(found):
        own = {k: v for base in found.__mro__ for k, v in vars(base).items() if _is_ours(base)}
        members = [
            getattr(value, "__func__", getattr(value, "fget", value))
            for name, value in own.items()
            if not name.startswith("_") or name == "__init__"
        ]
        for annotation in getattr(found, "__annotations__", {}).values():
            yield from _words(str(annotation))
    for member in members:
        if inspect.isfunction(member):
            for annotation in member.__annotations__.values():
                yield from _words(str(annotation))
            section = re.search(r"(Raises|Warns):\n(.*?)(\n\n|\Z)", member.__doc__ or "", re.DOTALL)
            if section:
                yield from re.findall(r"^\s+(\w+):", section[2], re.MULTILINE)


def _is_ours(base: type) -> bool:
    return base.__module__.startswith("ackbus")


def _words(annotation: str) -> list[str]:
    return re.findall(r"\b[A-Z]\w+\b", re.sub(r"'[^']*'|\"[^\"]*\"", "", annotation))


@pytest.mark.slow
def test_every_name_that_is_mentioned_can_be_imported() -> None:
    known = names_of_package()
    missing = {
        f"{name} (in {owner})"
        for owner, found in public_objects()
        for name in mentioned(found)
        if name in known and name not in reference.PUBLIC and name not in INTERNAL
    }
    assert missing == set()


def test_no_public_function_takes_any_keyword() -> None:
    """`**Any` would let a misspelt argument pass the type checkers."""
    open_ended = []
    for owner, found in public_objects():
        members = vars(found).values() if inspect.isclass(found) else [found]
        for value in members:
            member = getattr(value, "__func__", value)
            if not inspect.isfunction(member) or member.__name__.startswith("_"):
                continue
            for parameter in inspect.signature(member).parameters.values():
                is_open = parameter.kind is inspect.Parameter.VAR_KEYWORD
                if is_open and "Unpack" not in str(parameter.annotation):
                    open_ended.append(f"{owner}.{member.__name__}")
    assert open_ended == []


@pytest.mark.parametrize(
    ("options", "call", "besides"),
    [
        (ackbus.model.BusOptions, Database, {"self", "directory", "any_version", "read_only"}),
        (ackbus.model.ReadFilters, Criteria, set()),
        (ackbus.model.InboxOptions, ackbus.Inbox, {"self", "bus", "agent"}),
        (ackbus.model.PolicyRules, ackbus.Policy, set()),
        (ackbus.model.WorkerOptions, ackbus.Worker, {"self", "bus", "queue"}),
        (ackbus.model.MessageFields, ackbus.Bus.publish, {"self", "type", "payload", "from_agent"}),
    ],
)
def test_typed_options_are_those_of_the_call(
    options: type, call: Callable[..., object], besides: set[str]
) -> None:
    assert set(get_type_hints(options)) == set(inspect.signature(call).parameters) - besides


def test_the_page_of_the_api_is_rendered_from_it() -> None:
    """A name, an argument or a default that changes is a decision, and shows in the page."""
    assert reference.FILE.read_text("utf-8") == reference.render()


def test_each_public_name_stands_in_one_topic_of_the_page() -> None:
    names = [name for topic in reference.TOPICS for name in topic.names.split()]
    assert sorted([*names, *ackbus.errors.__all__]) == sorted(reference.PUBLIC)
    members = [name for topic in reference.TOPICS for name in topic.of_bus.split()]
    public = {name for name in dir(ackbus.Bus) if not name.startswith("_")}
    assert sorted(members) == sorted({"blobs", *public})


def test_no_sentence_of_the_page_is_cut() -> None:
    """The text after a name ends as a sentence does, or is a list of names."""
    about = re.findall(r"^ *- (?:\*\*|`).*?: (.*)$", reference.render(), re.M)
    assert len(about) > 200
    assert [text for text in about if text[-1] not in ".`"] == ["no payload at all"]


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (ackbus.model.AnswerState, {PENDING, SUCCESS, FAILURE, TIMED_OUT, ANSWERED}),
        (ackbus.model.Durability, set(DURABILITIES)),
        (ackbus.model.EndStatus, set(ENDS)),
        (ackbus.model.ClaimStatus, {ACTIVE, LOST, *ENDS}),
        (ackbus.model.JobState, set(jobs.STATES)),
        (ackbus.model.JobGate, {jobs.OPEN, jobs.TIME, jobs.KEY}),
        (ackbus.model.LimitKind, {QUEUE, INBOX}),
        (ackbus.model.ReservationMode, {EXCLUSIVE, SHARED}),
    ],
)
def test_typed_words_are_those_that_the_calls_know(words: object, known: set[str]) -> None:
    assert set(get_args(words)) == known


def test_typed_rules_are_those_of_a_policy() -> None:
    types = get_type_hints(ackbus.Policy, localns={"Literal": Literal})
    assert get_type_hints(ackbus.model.PolicyRules) == types
    assert {rule: get_args(kind) for rule, kind in types.items() if rule in CHOICES} == CHOICES


def test_every_home_of_a_name_is_loaded_on_its_own() -> None:
    for found in reference.PUBLIC.values():
        if inspect.isclass(found):
            assert getattr(importlib.import_module(found.__module__), found.__name__) is found
