"""The merge of two files by id, whatever they hold."""

import json
import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackbus.errors import InvalidInput
from ackbus.git.drivers import merge, records
from ackbus.schema.message.canonical_json import encode


def line(id: str, ts: int = 0, /, **fields: object) -> bytes:
    stamp = f"2026-01-10T14:00:00.{ts:03}Z"
    record = {"id": id, "ts": stamp, "from": "a", "type": "t"} | fields
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


#: Files of a few messages: an id always has the same content, its time and its place may differ.
FILES = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 3), st.booleans()).map(
        lambda drawn: (
            line(f"m{drawn[0]}", drawn[1], payload=drawn[0])
            if drawn[2]
            else b'{"seq":%d,' % (drawn[1] + 1)
            + line(f"m{drawn[0]}", drawn[1], payload=drawn[0])[1:]
        )
    )
)


def merged(*files: list[bytes]) -> list[bytes]:
    result: list[bytes] = []
    for file in files:
        outcome = merge(result, file)
        assert outcome.conflicts == []
        result = outcome.lines
    return result


@pytest.mark.slow
@given(FILES, FILES, FILES)
def test_merging_is_a_union(a: list[bytes], b: list[bytes], c: list[bytes]) -> None:
    """Pitfall 19: no id twice, none lost; order and repetition make no difference."""
    union = merged(a, b)
    ids = [json.loads(each)["id"] for each in union]
    assert sorted(ids) == sorted({json.loads(each)["id"] for each in a + b})
    assert union == merged(b, a) == merged(union, a) == merged(b, union)
    assert merged(union, c) == merged(a, merged(b, c))
    keys = [(json.loads(each)["ts"], json.loads(each)["id"]) for each in union]
    assert keys == sorted(keys)
    assert not any("seq" in json.loads(each) for each in union)


def test_spelling_is_no_conflict() -> None:
    left = line("a", payload={"x": 1, "y": 2})
    right = line("a", payload={"y": 2, "x": 1})
    assert merge([left], [right]).conflicts == []
    assert merge([left], [right]).lines == merge([right], [left]).lines


@pytest.mark.parametrize("field", ["payload", "to", "in_reply_to", "headers"])
def test_other_content_is_a_conflict(field: str) -> None:
    """Pitfall 17."""
    outcome = merge([line("a"), line("b")], [line("a", 0, **{field: {"x": 1}}), line("c")])
    assert outcome.conflicts == ["a"]
    assert [json.loads(each)["id"] for each in outcome.lines if each[:1] == b"{"] == [*"aabc"]


@pytest.mark.parametrize("bad", [b"[]\n", b'{"id":1}\n', b"half a li\n"])
def test_what_is_no_message_is_not_merged(bad: bytes) -> None:
    told = f"line 2 of our side is not a message: {bad.decode().strip()!r}"
    with pytest.raises(InvalidInput, match=f"^{re.escape(told)}$"):
        merge([line("a"), bad], [line("b")])


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize(
    "marker", [b"<<<<<<< ours", b"||||||| 1a2b", b"=======", b">>>>>>> theirs"]
)
def test_a_conflict_marker_is_called_so(marker: bytes, end: bytes) -> None:
    """Issue 4: also the last line of a file, which may lack its end."""
    told = "line 2 of our side is a conflict marker of git: keep one of the lines"
    with pytest.raises(InvalidInput, match=f"^{told}$"):
        merge([line("a"), marker + end], [line("b")])


def test_a_number_beyond_64_bits_stays_as_it_is() -> None:
    """Pitfall 21: another program stored it; the line is text to git."""
    huge = line("a")[:-2] + b',"payload":123456789012345678901234567890}\n'
    assert merge([huge], [line("b")]).lines[0] == huge


def test_what_is_nested_too_deep_to_be_shown_is_no_message() -> None:
    """Promise 11: `bus log` writes what it reads. What a bus can hold is never that deep."""

    def nested(depth: int) -> bytes:
        return line("a")[:-2] + b',"payload":' + b"[" * depth + b"]" * depth + b"}\n"

    deepest = next(depth for depth in range(300, 0, -1) if can_be_written(depth))
    ((_, record),) = records([nested(deepest)])
    assert record is not None
    orjson.dumps({"messages": [record]})
    ((_, record),) = records([nested(deepest + 10)])
    assert record is None
    with pytest.raises(InvalidInput, match="line 1 of our side is not a message"):
        merge([nested(deepest + 10)], [line("b")])


def can_be_written(depth: int) -> bool:
    """Whether a payload of so many levels can be published."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    try:
        encode(value)
    except InvalidInput:
        return False
    return True
