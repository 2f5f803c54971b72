"""Values come out as they went in, through the bus and its JSONL; so does text through checks."""

import json
import re
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ackbus import Bus, Message
from ackbus.errors import IdConflict, InvalidInput, UnknownRecipient, UnknownRecipientWarning
from ackbus.schema.message.names import MAX_PAYLOAD_BYTES
from ackbus.schema.message.patterns import TypePattern
from ackbus.schema.message.times import (
    MAX_TS_MS,
    format_ts,
    parse_duration_ms,
    parse_since,
    parse_ts,
)

from ..sizes import size

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text('aé\n"\\\u2028😀'), inner),
    max_leaves=20,
)
json_objects = st.dictionaries(st.text("abé", min_size=1), json_values, max_size=4)


@pytest.fixture(scope="module")
def shared_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """One bus for all examples: what they publish does not meet."""
    with Bus.init(tmp_path_factory.mktemp("shared") / ".worker-state") as bus:
        yield bus


def exactly(value: object) -> str:
    """Text that is equal for equal JSON values only: it tells -0.0 from 0.0, and 1 from true."""
    if isinstance(value, dict):
        return f"{{{sorted((key, exactly(item)) for key, item in value.items())}}}"
    if isinstance(value, list):
        return repr([exactly(item) for item in value])
    return repr(value)


def published(bus: Bus, type: str = "note", **fields: Any) -> Message:
    """The message in the log after publishing these fields."""
    fields.setdefault("from_agent", "ann")
    message = bus.get(bus.publish(type, **fields).seq)
    assert message is not None
    return message


@pytest.mark.slow
@given(value=json_values)
@example(value=-0.0)
@example(value=[2**64 - 1, -(2**63), 2**53 + 1, 5e-324, 1.7976931348623157e308, 1e16])
@example(value={"": {"\u0000": "\u2028\u2029\ufeff\U0010ffff"}})
@example(value="é" * 3000)
@example(value=[[[[[[[[[[None]]]]]]]]]])
def test_any_json_value_is_read_back_equal(value: object, shared_bus: Bus) -> None:
    """M-42, M-43, M-46: falsy, large, deep, and at the edges of what JSON numbers can be."""
    message = published(shared_bus, payload=value)
    assert message.has_payload
    assert message.payload_error is None
    assert exactly(message.payload) == exactly(value)


@pytest.mark.slow
@given(value=json_values)
def test_a_retry_of_any_value_is_a_duplicate(value: object, shared_bus: Bus) -> None:
    """M-41: the same id and content, however the content looks."""
    first = shared_bus.publish("note", value, from_agent="ann")
    again = shared_bus.publish("note", value, from_agent="ann", id=first.id)
    assert (again.seq, again.duplicate) == (first.seq, True)


@pytest.mark.slow
@settings(max_examples=size(sample=40, whole=100))
@given(values=st.tuples(scalars, scalars) | st.tuples(json_values, json_values))
@example(values=(0, False))
@example(values=(0, -0.0))
@example(values=(1, 1.0))
@example(values=(None, "null"))
@example(values=("x" * 5000, "y" * 5000))
def test_other_content_under_the_same_id_conflicts(
    values: tuple[object, object], shared_bus: Bus
) -> None:
    """M-47: no two values that differ pass for the same."""
    one, other = values
    first = shared_bus.publish("note", one, from_agent="ann")
    if exactly(one) == exactly(other):
        assert shared_bus.publish("note", other, from_agent="ann", id=first.id).duplicate
        return
    with pytest.raises(IdConflict) as conflict:
        shared_bus.publish("note", other, from_agent="ann", id=first.id)
    assert conflict.value.fields == ["payload"]


@pytest.mark.slow
@given(value=json_values, headers=json_objects, priority=st.sampled_from([0, 1, 2]))
def test_a_jsonl_line_parses_to_the_message(
    value: object, headers: dict[str, object], priority: int, shared_bus: Bus
) -> None:
    """M-30, M-79: one line, and every field of the message in it."""
    message = published(shared_bus, payload=value, headers=headers, priority=priority)
    line = message.to_line()
    assert b"\n" not in line
    assert b"\r" not in line
    fields = json.loads(line)
    assert (fields["seq"], fields["id"], fields["from"]) == (message.seq, message.id, "ann")
    assert parse_ts(fields["ts"]) == message.ts_ms
    assert fields.get("payload_ref") == message.payload_ref
    if message.payload_ref is None:
        assert exactly(fields["payload"]) == exactly(value)
    assert exactly(fields.get("headers", {})) == exactly(headers)
    assert fields.get("priority", "normal") == ["interactive", "normal", "background"][priority]


# Text as names ---------------------------------------------------------------------------------

any_text = st.text(max_size=300) | st.text("ab.*> -\u0000\x1b\ud800é\u200b", max_size=8)


class Undo(Exception):
    """Ends a transaction without keeping it."""


@pytest.mark.parametrize(
    ("argument", "attribute"),
    [
        ("type", "type"),
        ("from_agent", "from_agent"),
        ("to_agent", "to_agent"),
        ("id", "id"),
        ("correlation_id", "correlation_id"),
    ],
)
@given(text=any_text)
@example(text="")
@example(text="ok")
@example(text="-option")
@example(text="a\x1b[31mb")
@example(text="\ud800")
@example(text="\U0001f600")
def test_text_is_stored_exactly_or_refused(
    argument: str, attribute: str, text: str, shared_bus: Bus
) -> None:
    """C-03: nothing is trimmed, folded or cut; what breaks a rule leaves the log as it was."""
    newest = shared_bus.log.newest_seq()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownRecipientWarning)
        try:
            with shared_bus.transaction():
                message = published(shared_bus, **{argument: text})
                assert getattr(message, attribute) == text
                assert json.loads(message.to_line())["seq"] == message.seq
                raise Undo
        except (Undo, InvalidInput, UnknownRecipient):
            pass
    assert shared_bus.log.newest_seq() == newest


@given(headers=st.dictionaries(any_text, any_text | st.floats() | st.integers(), max_size=3))
@example(headers={"trace": float("nan")})
@example(headers={"n": 2**64})
@example(headers={"large": "x" * 17_000})
def test_headers_are_stored_exactly_or_refused(headers: dict[str, object], shared_bus: Bus) -> None:
    newest = shared_bus.log.newest_seq()
    try:
        message = published(shared_bus, headers=headers)
    except InvalidInput:
        assert shared_bus.log.newest_seq() == newest
    else:
        assert exactly(message.headers) == exactly(headers)


@pytest.mark.parametrize(
    "value",
    [{1}, object(), {1: "a"}, 2**64, -(2**63) - 1, float("inf"), ["\ud800"], b"bytes"],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_json_form_is_refused(value: object, shared_bus: Bus) -> None:
    newest = shared_bus.log.newest_seq()
    with pytest.raises(InvalidInput, match="payload"):
        shared_bus.publish("note", value, from_agent="ann")
    assert shared_bus.log.newest_seq() == newest


@pytest.mark.parametrize("look", [Bus.get, lambda bus, text: list(bus.read(conversation=text))])
def test_text_that_is_no_unicode_cannot_be_looked_for(
    look: Callable[[Bus, str], object], shared_bus: Bus
) -> None:
    """Bytes of a command line that are no UTF-8 arrive as lone surrogates."""
    with pytest.raises(InvalidInput, match="not valid Unicode"):
        look(shared_bus, "\udcff")


def test_payload_limit_is_exact(shared_bus: Bus) -> None:
    with pytest.raises(InvalidInput, match="bus blob put"):
        shared_bus.publish("note", "x" * (MAX_PAYLOAD_BYTES - 1), from_agent="ann")


# Patterns --------------------------------------------------------------------------------------

words = st.sampled_from(["a", "b", "ab", "a_b"])
types = st.lists(words, min_size=1, max_size=4).map(".".join)
patterns = st.builds(
    lambda parts, rest: ".".join([*parts, *rest]),
    st.lists(words | st.just("*"), max_size=3),
    st.sampled_from([[], [">"]]),
).filter(bool)


def as_regex(pattern: str) -> str:
    """The reference: `*` is one part, a last `>` is one part or more, all else is itself."""
    parts = [re.escape(part) for part in pattern.split(".")]
    words = {re.escape("*"): r"[^.]+", ">": r"[^.]+(?:\.[^.]+)*"}
    return r"\.".join(words.get(part, part) for part in parts)


@given(pattern=patterns, type=types)
@example(pattern=">", type="a.b.a")
@example(pattern="a.>", type="a")
@example(pattern="*.*", type="a")
def test_type_patterns_match_as_the_regex_does(pattern: str, type: str) -> None:
    expected = re.fullmatch(as_regex(pattern), type) is not None
    assert TypePattern(pattern).matches(type) == expected


# Times -----------------------------------------------------------------------------------------

times_ms = st.integers(0, MAX_TS_MS)
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@given(ts_ms=times_ms)
@example(ts_ms=0)
@example(ts_ms=MAX_TS_MS)
def test_times_are_read_back_as_written(ts_ms: int) -> None:
    """M-23, M-30."""
    text = format_ts(ts_ms)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    assert parse_ts(text) == ts_ms
    assert parse_ts(str(ts_ms)) == ts_ms
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ts_ms)
    assert datetime.fromisoformat(text) == moment


@given(
    ts_ms=st.integers(86_400_000, MAX_TS_MS - 86_400_000),
    offset_min=st.integers(-23 * 60, 23 * 60),
)
def test_a_zone_changes_the_text_and_not_the_time(ts_ms: int, offset_min: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ts_ms)
    sign, (hours, minutes) = "-" if offset_min < 0 else "+", divmod(abs(offset_min), 60)
    local = (moment + timedelta(minutes=offset_min)).replace(tzinfo=None)
    text = f"{local.isoformat(timespec='milliseconds')}{sign}{hours:02}:{minutes:02}"
    assert parse_ts(text) == ts_ms


@given(
    number=st.integers(0, 10**6), tenths=st.integers(0, 9), unit=st.sampled_from([*UNITS_MS, ""])
)
def test_durations_are_number_times_unit(number: int, tenths: int, unit: str) -> None:
    unit_ms = UNITS_MS[unit or "s"]
    assert parse_duration_ms(f"{number}{unit}") == number * unit_ms
    assert parse_duration_ms(f"{number}.{tenths}{unit}") == round((number + tenths / 10) * unit_ms)
    if unit:
        assert parse_since(f"{number}{unit}", now=10**12) == max(0, 10**12 - number * unit_ms)


@given(text=st.text() | st.text("0123456789.-+:TZmshd eE_", max_size=30))
def test_text_that_is_no_time_is_refused_in_one_way(text: str) -> None:
    for parse in (parse_ts, parse_duration_ms, lambda text: parse_since(text, now=10**12)):
        try:
            result = parse(text)
        except InvalidInput:
            continue  # any other error fails the test
        assert type(result) is int
        assert result >= 0
