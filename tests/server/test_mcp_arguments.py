"""Values of every kind in each argument of each tool: one rule, a table.

The expectations are by the kind of an argument, which the table says again: it is not read from the
schemas, so that a new argument must be given a kind here.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ackbus import Bus
from ackbus.server.mcp.sdk_server import Unreadable, read_message
from ackbus.server.mcp.tools.catalog import tools_of
from ackbus.server.mcp.tools.profiles import FULL
from ackbus.server.mcp.tools.tool import explain

from .mcp_clients import Agent, in_process
from .stored_answers import line_of

TOOLS = tools_of(FULL)

#: The kind of each argument; those that must be given have an exclamation mark.
KINDS: dict[str, dict[str, str]] = {
    "bus_join": {"name": "text", "task": "text", "wants": "list"},
    "bus_send": {
        "type": "text!",
        "payload": "any",
        "to": "to",
        "in_reply_to": "seq or id",
        "priority": "word",
        "id": "text",
        "again": "flag",
    },
    "bus_inbox": {
        "type": "text",
        "wait_s": "wait",
        "limit": "whole",
        "with_work": "flag",
        "cursor": "seq or id",
    },
    "bus_ack": {"seq": "whole!", "skip": "flag"},
    "bus_reserve": {"paths": "list!", "mode": "word", "minutes": "number", "reason": "text"},
    "bus_status": {},
    "bus_task": {
        "action": "word",
        "task": "text",
        "text": "text",
        "line": "text",
        "token": "whole",
    },
    "bus_thread": {"conversation": "seq or id!", "limit": "whole", "cursor": "seq or id"},
    "bus_search": {
        "words": "text!",
        "type": "text",
        "agent": "text",
        "limit": "whole",
        "cursor": "seq or id",
    },
    "bus_receipts": {"seq": "whole!"},
    "bus_agents": {"cursor": "seq or id"},
    "bus_claim": {"queue": "text!", "minutes": "number", "renew": "whole"},
    "bus_finish": {"token": "whole!", "outcome": "word", "result": "any", "error": "text"},
    "bus_check": {"conversation": "seq or id!"},
    "bus_request": {
        "type": "text!",
        "payload": "any",
        "to": "one",
        "priority": "word",
        "wait_s": "wait",
    },
}

#: Right values of the arguments that must be given.
NEEDED = {
    "type": "t.request",
    "seq": 1,
    "paths": ["a.py"],
    "conversation": "c",
    "words": "w",
    "queue": "q",
    "token": 1,
}

ABSENT, REFUSED, AS_IT_IS = object(), object(), object()

#: What becomes of each value, by kind; a value that is not named is refused.
TAKEN: dict[str, list[tuple[Any, Any]]] = {
    "any": [
        (value, AS_IT_IS)
        for value in ("", "null", "[1]", '{"a": 1}', 0, 7, 1.5, False, True, [], ["a"], {"a": 1})
    ],
    "text": [("", ABSENT), *((text, AS_IT_IS) for text in ("null", "true", "7", '["a"]', "{}"))],
    "one": [("", AS_IT_IS), *((text, AS_IT_IS) for text in ("null", "true", "7", '["a"]', "{}"))],
    "seq or id": [
        ("", ABSENT),
        *((text, AS_IT_IS) for text in ("null", "true", "7", '["a"]', "{}")),
        (0, "0"),
        (7, "7"),
        (7.0, "7"),
    ],
    "list": [
        ("", ABSENT),
        ("null", ["null"]),
        ("true", ["true"]),
        ("7", ["7"]),
        ("a.py", ["a.py"]),
        ("{}", ["{}"]),
        ('["a"]', ["a"]),
        (' ["a", "b"]', ["a", "b"]),
        ('["a"', ['["a"']),
        ("[id]/x", ["[id]/x"]),
        ("[]", []),
        (["a"], AS_IT_IS),
        ([], AS_IT_IS),
    ],
    "to": [
        ("", [""]),
        ("null", ["null"]),
        ("true", ["true"]),
        ("7", ["7"]),
        ("{}", ["{}"]),
        ('["a"]', ["a"]),
        ("[]", []),
        (["a"], AS_IT_IS),
        ([], AS_IT_IS),
    ],
    "word": [("", ABSENT)],
    "whole": [("", ABSENT), (0, ABSENT), (0.0, ABSENT), (7, AS_IT_IS), (7.0, 7), ("7", 7)],
    "number": [
        *[("", ABSENT), (0, ABSENT), (0.0, ABSENT)],
        *[(7, 7.0), (7.0, 7.0), (1.5, 1.5), ("7", 7.0)],
    ],
    "wait": [("", ABSENT), (0, 0.0), (0.0, 0.0), (7, 7.0), (7.0, 7.0), (1.5, 1.5), ("7", 7.0)],
    "flag": [("", ABSENT), (0, False), (0.0, False), (False, False), (True, True), ("true", True)],
}

#: Everything that is tried with every argument.
VALUES: list[Any] = [
    *(None, "", "null", "true", "7", "a.py", "{}", '["a"]', ' ["a", "b"]', '["a"', "[id]/x", "[]"),
    *(0, 0.0, 7, 7.0, 1.5, -1, 10**400, 1e300, False, True),
    *([], ["a"], [7], [None], [["a"]], {}, {"a": 1}),
]

CASES = [
    (tool, name, kind.rstrip("!"), kind.endswith("!"))
    for tool, arguments in KINDS.items()
    for name, kind in arguments.items()
]


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def expected(kind: str, value: Any, is_needed: bool) -> Any:
    """The value that an argument is to have, or that it is absent or refused."""
    if value is None:
        return ABSENT
    for given, taken in TAKEN[kind]:
        if same(given, value):
            if taken is ABSENT and is_needed:
                break
            return value if taken is AS_IT_IS else taken
    if is_needed and kind in ("text", "seq or id") and value == "":
        return value  # the bus says what it must be
    if is_needed and kind == "list" and value == "":
        return [""]
    if kind in ("text", "one", "seq or id") and type(value) is str:
        return value
    if kind in ("list", "to") and type(value) is str:
        return [value] if not value.lstrip().startswith('["a", ') else json.loads(value)
    if kind == "any":
        return value
    if kind == "seq or id" and type(value) in (int, float) and value == value // 1:
        return str(int(value))
    return REFUSED


#: Bounds of numbers are told by the schema; here only the kinds are at stake.
OUT_OF_BOUNDS = {-1, 10**400, 1e300}


def test_every_argument_has_a_kind() -> None:
    for name, tool in TOOLS.items():
        assert list(tool.input_schema["properties"]) == list(KINDS[name]), name
        needed = [each for each, kind in KINDS[name].items() if kind.endswith("!")]
        assert tool.input_schema.get("required", []) == needed


@pytest.mark.parametrize(("tool", "name", "kind", "is_needed"), CASES)
def test_value_is_absent_or_taken_or_refused(
    tool: str, name: str, kind: str, is_needed: bool
) -> None:
    """Issue 32, item 11."""
    takes = TOOLS[tool].takes
    others = {
        each: NEEDED[each] for each, of in KINDS[tool].items() if of.endswith("!") and each != name
    }
    for value in VALUES:
        if (
            kind in ("whole", "number", "wait")
            and type(value) in (int, float)
            and value in OUT_OF_BOUNDS
        ):
            continue
        wanted = expected(kind, value, is_needed)
        try:
            given = takes.model_validate({**others, name: value})
        except ValidationError as error:
            words = explain(tool, error, takes.model_fields)
            refused = wanted is REFUSED or (wanted is ABSENT and is_needed) or wanted == []
            assert refused, (value, words)
            assert f"{name}" in words
            assert not re.search(r"Input should|pydantic|valid |unable|wrong form", words), words
            assert "Correct the arguments and call again." in words
            continue
        assert wanted is not REFUSED, (value, getattr(given, name))
        assert (name in given.model_fields_set) == (wanted is not ABSENT), value
        if wanted is not ABSENT:
            assert same(getattr(given, name), wanted), (value, getattr(given, name))


@pytest.mark.parametrize("to", ["", [], "[]", [""], "null", "None", ["a", "null"], '[""]', [None]])
def test_recipient_that_names_nobody_is_refused(bus: Bus, bus_dir: Path, to: Any) -> None:
    """Tolerance would send what is private to everyone, or to nobody."""

    async def act(me: Agent) -> None:
        await me.fail("bus_send", type="t", payload="private", to=to)
        if not isinstance(to, list):
            await me.fail("bus_request", type="t.request", to=to, wait_s=0)
        await me.fail("bus_request", type="t.request", to=["a"], wait_s=0)

    in_process(bus_dir, act)
    assert bus.log.newest_seq() == 0


def test_strict_and_sloppy_clients_reserve_and_send_alike(bus: Bus, bus_dir: Path) -> None:
    for name in ("ann", "bob"):
        bus.heartbeats.beat(name)

    async def act(me: Agent) -> None:
        for paths in ("a.py", '["a.py"]', ["a.py"]):
            assert (await me.call("bus_reserve", paths=paths))["granted"]
            released = await me.call("bus_reserve", paths=paths, mode="release")
            assert released["reservations"] == []
        for paths in ("", [""], "[]", [], [7], 7, None, True, {}):
            await me.fail("bus_reserve", paths=paths)
        for to in ('["ann", "bob"]', ["ann", "bob"]):
            sent = await me.call("bus_send", type="t", to=to, payload='["not", "parsed"]')
            assert list(sent["seqs"]) == ["ann", "bob"]
        answer = await me.call("bus_send", type="t", in_reply_to=1, payload="[]")
        assert answer["conversation"]
        for wrong in (True, 5, 1.5, ["t"], {}):
            assert "type: it must be text, not" in await me.fail("bus_send", type=wrong)
        for wrong in (True, 1.5, "x", [1], {}):
            assert "seq: it must be a whole number" in await me.fail("bus_ack", seq=wrong)

    in_process(bus_dir, act)
    assert [each.payload for each in bus.read(type="t")] == ['["not", "parsed"]'] * 4 + ["[]"]


@pytest.mark.parametrize("arguments", ["x", 7, ["a"], True, "{}"])
def test_arguments_that_are_no_object_get_words_of_ours(arguments: Any) -> None:
    """The SDK would say "Invalid request parameters"."""
    params = {"name": "bus_status", "arguments": arguments}
    with pytest.raises(Unreadable) as refused:
        read_message(line_of({"id": 1, "method": "tools/call", "params": params}))
    answer = json.loads(refused.value.answer)
    assert answer["id"] == 1
    assert "arguments must be an object, each argument by its name." in answer["error"]["message"]
    with pytest.raises(Unreadable, match="name must be text"):
        read_message(line_of({"id": 1, "method": "tools/call", "params": {"name": arguments != 7}}))


@pytest.mark.parametrize("params", [{"name": "bus_status"}, {"name": "x", "arguments": None}])
def test_call_without_arguments_is_a_call(params: dict[str, Any]) -> None:
    assert read_message(line_of({"id": 1, "method": "tools/call", "params": params}))
