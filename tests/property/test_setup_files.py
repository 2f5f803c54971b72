"""In any JSON, in any layout: our entry goes in once, and comes out to the byte."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackbus.schema.directory.enclosure import Enclosure
from ackbus.setup.edits import Edit, JsonHook, JsonServer
from ackbus.setup.files import ConfigFile
from ackbus.setup.json_edits import parse

pytestmark = pytest.mark.slow

EDITS: list[Edit] = [
    JsonServer(("mcpServers",), {"command": "/x/bus", "args": ["mcp", "--agent", "a"]})
]
EDITS += [
    JsonHook(
        ("hooks", name),
        {"hooks": [{"type": "command", "command": f"/x/bus hook {event} claude --agent a"}]},
        f" hook {event} claude ",
    )
    for event, name in (("start", "SessionStart"), ("tool", "PostToolUse"), ("stop", "Stop"))
]
FILE = ConfigFile("x.json", Enclosure("."), EDITS)

SPACE = st.sampled_from(["", "", " ", "\n", "\n  ", "\r\n\t", ' // c, "}\n ', "/* , { */", "\n\n"])
SCALAR = st.sampled_from(["1", '"a"', "true", "null", '"x // y"', "-1.5e3", r'"\u00e9\""', '"{"'])


@st.composite
def sequences(draw: st.DrawFn, opening: str, items: list[str], closing: str) -> str:
    """Items between brackets, with spaces and comments; some with a comma after the last."""
    text = opening + draw(SPACE)
    for number, item in enumerate(items, 1):
        is_last = number == len(items)
        comma = "," if not is_last or draw(st.integers(0, 4)) == 0 else ""
        text += item + draw(SPACE) + comma + draw(SPACE)
    return text + closing


@st.composite
def arrays(draw: st.DrawFn, depth: int) -> str:
    items = [draw(values(depth + 1)) for _ in range(draw(st.integers(0, 2)))]
    return draw(sequences("[", items, "]"))


@st.composite
def objects(draw: st.DrawFn, depth: int = 0) -> str:
    names = ["mcpServers", "hooks", "Stop", "SessionStart", "PostToolUse", "a", "ackbusx"]
    members = []
    for name in draw(st.lists(st.sampled_from(names), unique=True, max_size=3)):
        if name in ("mcpServers", "hooks"):
            value = draw(objects(depth + 1))
        elif name[0].isupper():
            value = draw(arrays(depth + 1))
        else:
            value = draw(values(depth + 1))
        members.append(f"{json.dumps(name)}{draw(SPACE)}:{draw(SPACE)}{value}")
    return draw(sequences("{", members, "}"))


def values(depth: int) -> st.SearchStrategy[str]:
    return SCALAR if depth > 2 else st.one_of(SCALAR, objects(depth), arrays(depth))


def without_empty(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kept = {key: without_empty(each) for key, each in value.items() if key != "ackbus"}
    if isinstance(kept.get("hooks"), dict):
        kept["hooks"] = {
            key: [x for x in each if "/x/bus" not in json.dumps(x)] if key[0].isupper() else each
            for key, each in kept["hooks"].items()
        }
    return {key: each for key, each in kept.items() if each not in ({}, [])}


@settings(max_examples=150, deadline=None)
@given(SPACE, objects(), SPACE)
def test_what_goes_in_comes_out_to_the_byte(before: str, document: str, after: str) -> None:
    """Issue 7, item 7."""
    text = before + document + after
    merged = FILE.with_all(text)
    assert FILE.with_all(merged) == merged
    assert FILE.without(merged) == text
    value = parse(merged).value
    assert value["mcpServers"]["ackbus"]["command"] == "/x/bus"
    assert without_empty(without_empty(value)) == without_empty(without_empty(parse(text).value))
