"""The form of a message: its fields, its JSON, its limits, and what is refused."""

import dataclasses
import json
import math
import re
import uuid
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import orjson
import pytest

from ackbus import ABSENT, Bus, Draft, Exporter, FieldMap, Inbox, Priority
from ackbus.bus.reservations.path_patterns import parse_pattern
from ackbus.errors import InvalidInput
from ackbus.schema.message import names
from ackbus.schema.message.canonical_json import decode, encode
from ackbus.schema.message.draft import parse_priority
from ackbus.schema.message.names import new_id
from ackbus.schema.message.patterns import TypePattern, check_pattern
from ackbus.schema.message.times import format_ts, parse_duration_ms, parse_since, parse_ts
from ackbus.schema.queries import file_of
from ackbus.workers.json_contract import parse_response

from ..programs import connect

ROOT = Path(__file__).parents[2]

TS_MS = 1_768_053_600_007


def publish_full(bus: Bus) -> None:
    root = Draft("task.assign", from_agent="lead", id="root", ts_ms=TS_MS)
    full = Draft(
        "task.done",
        {"b": 1, "a": [None, "é"]},
        from_agent="alice",
        to_agent="lead",
        id="full",
        in_reply_to="root",
        priority=Priority.BACKGROUND,
        headers={"traceparent": "00-ab"},
        ts_ms=TS_MS + 1,
    )
    bus.publish_many([root, full])


def test_json_form_has_the_documented_names_in_order(bus: Bus) -> None:
    """M-30, M-40, X-37: `ts` is RFC 3339 with milliseconds and Z; what is absent is left out."""
    bus.heartbeats.beat("lead")
    publish_full(bus)
    lines = [message.to_line() for message in bus.read()]
    assert lines == [
        b'{"seq":1,"id":"root","ts":"2026-01-10T14:00:00.007Z","from":"lead","type":"task.assign"}',
        '{"seq":2,"id":"full","ts":"2026-01-10T14:00:00.008Z","from":"alice","to":"lead",'
        '"type":"task.done","correlation_id":"root","in_reply_to":"root",'
        '"priority":"background","headers":{"traceparent":"00-ab"},'
        '"payload":{"a":[null,"é"],"b":1}}'.encode(),
    ]
    mail = [message for agent in ("bob", "lead") for message in Inbox(bus, agent).poll()]
    assert [message.to_json() for message in mail] == lines


def test_large_payload_is_a_reference_in_a_line_and_whole_in_json(bus: Bus) -> None:
    """M-30, X-37: the two forms differ in nothing else."""
    bus.publish("note", "x" * 5000, from_agent="bob")
    (message,) = bus.read()
    line, shown = json.loads(message.to_line()), json.loads(message.to_json())
    assert list(line)[-1] == "payload_ref"
    assert shown == line | {"payload": "x" * 5000}


def test_ids_are_uuids_in_order_of_time(bus: Bus) -> None:
    """M-30, M-40, X-08: version 7, not 4, which costs an index far less (ids.py)."""
    first = [uuid.UUID(new_id()) for _ in range(1000)]
    assert {(found.version, found.variant) for found in first} == {(7, uuid.RFC_4122)}
    assert len(set(first)) == 1000
    receipt = bus.publish("note", from_agent="bob")
    ts_ms = next(bus.read()).ts_ms
    assert uuid.UUID(receipt.id).version == 7
    assert abs((uuid.UUID(receipt.id).int >> 80) - ts_ms) < 60_000


def test_seq_orders_when_the_clock_steps_back(bus_dir: Path) -> None:
    """X-08, M-39: a message carries both seq and id; the order is that of seq."""
    times = iter([5000, 1000, 3000])
    with Bus.open(bus_dir, clock=lambda: next(times)) as bus:
        for name in "abc":
            bus.publish("note", from_agent="bob", id=name)
        found = [(message.seq, message.id, message.ts_ms) for message in bus.read()]
    assert found == [(1, "a", 5000), (2, "b", 1000), (3, "c", 3000)]


FALSY = [{}, [], 0, False, "", None, 0.0]


@pytest.mark.parametrize("payload", FALSY, ids=repr)
def test_falsy_payload_comes_back_as_it_was(payload: object, bus: Bus) -> None:
    """M-46: equal in value and in type, and not absent."""
    bus.publish("note", payload, from_agent="bob")
    (message,) = bus.read()
    assert message.payload == payload
    assert type(message.payload) is type(payload)
    assert message.has_payload
    assert json.loads(message.to_line())["payload"] == payload


def test_absent_payload_stores_nothing(bus: Bus, bus_dir: Path) -> None:
    """M-43, M-46: both columns are NULL, and null is something else."""
    bus.publish("note", from_agent="bob")
    (message,) = bus.read()
    assert (message.payload, message.has_payload, message.payload_error) == (None, False, None)
    assert "payload" not in json.loads(message.to_line())
    stored = connect(bus_dir).execute("SELECT payload, payload_ref FROM messages").get
    assert stored == (None, None)


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1])
def test_big_integers_come_back_exactly(number: int, bus: Bus) -> None:
    """PITFALLS 21: up to 64 bits, with no rounding."""
    bus.publish("note", {"n": number}, from_agent="bob")
    (message,) = bus.read()
    assert message.payload == {"n": number}
    assert f'"n":{number}'.encode() in message.to_line()


@dataclasses.dataclass
class Reading:
    value: float


#: The documented reasons for which something has no JSON form.
UNWRITABLE: list[tuple[object, str]] = [
    (math.nan, "NaN or an infinity"),
    ([{"deep": math.inf}], "NaN or an infinity"),
    ((None, -math.inf), "NaN or an infinity"),
    (Reading(math.nan), "NaN or an infinity"),
    ("\ud800", "surrogates"),
    ({"key\udfff": 1}, "surrogates"),
    (2**64, "64"),
    ({1: "a"}, "str"),
    ({1, 2}, "set"),
    (b"bytes", "bytes"),
]


@pytest.mark.parametrize(("payload", "reason"), UNWRITABLE, ids=repr)
def test_payload_without_a_json_form_is_refused(payload: object, reason: str, bus: Bus) -> None:
    """M-44, promise 11: one line with the reason; nothing is changed in silence."""
    with pytest.raises(InvalidInput, match=f"^payload can't be written as JSON: .*{reason}"):
        bus.publish("note", payload, from_agent="bob")
    with pytest.raises(InvalidInput, match=f"^headers can't be written as JSON: .*{reason}"):
        bus.publish("note", from_agent="bob", headers={"x": payload})
    assert bus.log.newest_seq() == 0


def test_payload_that_contains_itself_is_refused(bus: Bus) -> None:
    """Promise 11."""
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InvalidInput, match="can't be written as JSON"):
        bus.publish("note", endless, from_agent="bob")


def test_json_equals_that_of_the_standard_library() -> None:
    """Q-11: orjson's bytes are those of json with sorted keys and no spaces, on a corpus."""
    text = '\u2028 "\\\n\t\x01\x7f/ 🙂'
    nested = {"b": [1, -0.5, 0.1, True], "a": {"é": text}}
    corpus: list[object] = [nested, [], {}, "", None, 2**60, -0.0]
    for value in corpus:
        plain = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert encode(value) == plain.encode()


def test_text_that_is_no_json_is_refused_with_its_place() -> None:
    """Promise 11: malformed, not UTF-8, and the constants that are no JSON."""
    for text in ("{", b"\xff", "NaN", '"\\ud800"', "", "[1,]"):
        with pytest.raises(InvalidInput, match=r"^payload is not valid JSON: .+"):
            decode(text)
    assert decode('{"a": 1}') == {"a": 1}


# Limits: each is accepted at its edge and refused one further.

LIMITS: dict[str, tuple[int, Callable[[Bus, int], object]]] = {
    "type": (names.MAX_TYPE_CHARS, lambda bus, n: bus.publish("t" * n, from_agent="b")),
    "agent": (names.MAX_AGENT_CHARS, lambda bus, n: bus.publish("t", from_agent="b" * n)),
    "id": (names.MAX_ID_CHARS, lambda bus, n: bus.publish("t", from_agent="b", id="i" * n)),
    "conversation": (
        names.MAX_ID_CHARS,
        lambda bus, n: bus.publish("t", from_agent="b", correlation_id="c" * n),
    ),
    "lease name": (
        names.MAX_LEASE_NAME_CHARS,
        lambda bus, n: bus.leases.acquire("l" * n, "b"),
    ),
    "headers": (
        names.MAX_HEADERS_BYTES,
        lambda bus, n: bus.publish("t", from_agent="b", headers={"h": "x" * (n - len('{"h":""}'))}),
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limit_is_accepted_at_its_edge_and_refused_beyond(name: str, bus: Bus) -> None:
    """Promise 11: the line names the limit, and nothing is stored."""
    limit, use = LIMITS[name]
    use(bus, limit)
    stored = bus.log.newest_seq()
    with pytest.raises(InvalidInput, match=f"{limit + 1}.* the limit is {limit}") as caught:
        use(bus, limit + 1)
    assert "\n" not in str(caught.value)
    assert bus.log.newest_seq() == stored


def test_payload_limit_is_refused_beyond_its_edge(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-19, promise 11: 64 MiB of JSON; the test lowers it, since memory is all it would show."""
    assert names.MAX_PAYLOAD_BYTES == 64 * 1024 * 1024
    monkeypatch.setattr("ackbus.schema.message.draft.MAX_PAYLOAD_BYTES", 10_000)
    bus.publish("note", "x" * 9_998, from_agent="bob")
    with pytest.raises(InvalidInput, match="payload is 10001 bytes of JSON; the limit is 10000"):
        bus.publish("note", "x" * 9_999, from_agent="bob")
    assert bus.log.newest_seq() == 1
    assert len(list(bus.blobs)) == 1


def test_limits_are_documented() -> None:
    """Promise 11: docs/protocol.md gives each limit of schema/message/names.py by its number."""
    document = (ROOT / "docs" / "protocol.md").read_text("utf-8")
    found = re.findall(r"\d[\d,]*", document)
    numbers = {int(number.replace(",", "")) for number in found}
    named = {
        name: value for name, value in vars(names).items() if name[0] != "_" and name.isupper()
    }
    assert len(named) == 13
    assert {name for name, value in named.items() if value not in numbers} == set()


class Kind(StrEnum):
    """Types, as a program may keep them."""

    DONE = "task.done"


def test_names_may_be_members_of_an_enumeration(bus: Bus) -> None:
    message = bus.get(bus.publish(Kind.DONE, from_agent=Kind.DONE).seq)
    assert message is not None
    assert (message.type, message.from_agent) == ("task.done", "task.done")


BAD_NAMES = ["", " edge", "edge ", "tab\there", "esc\x1b[31m", "line\nbreak", "\ud800", "-option"]


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_name_that_would_harm_a_reader_is_refused(name: str, bus: Bus) -> None:
    """PITFALLS 24, promise 11: in every field; the refusal itself is one harmless line."""
    uses: list[Callable[[], object]] = [
        lambda: bus.publish(name, from_agent="bob"),
        lambda: bus.publish("note", from_agent=name),
        lambda: bus.publish("note", from_agent="bob", to_agent=name),
        lambda: bus.publish("note", from_agent="bob", id=name),
        lambda: bus.publish("note", from_agent="bob", correlation_id=name),
        lambda: bus.publish("note", from_agent="bob", in_reply_to=name),
        lambda: bus.leases.acquire(name, "bob"),
        lambda: bus.heartbeats.beat(name),
        lambda: Inbox(bus, name),
    ]
    for use in uses:
        with pytest.raises(InvalidInput) as caught:
            use()
        assert str(caught.value).isprintable()
    assert bus.log.newest_seq() == 0


@pytest.mark.parametrize("type", ["a b", "a.*", "a.>", ".a", "a.", "a..b", None, 7])
def test_type_is_dotted_words(type: str, bus: Bus) -> None:
    """M-45, promise 11."""
    with pytest.raises(InvalidInput):
        bus.publish(type, from_agent="bob")


@pytest.mark.parametrize(
    ("pattern", "fits", "differs"),
    [
        ("task.done", ["task.done"], ["task", "task.done.now", "xtask.done"]),
        ("task.*", ["task.done", "task.x"], ["task", "task.a.b", "other.done"]),
        ("*.done", ["task.done"], ["done", "task.a.done"]),
        ("task.>", ["task.done", "task.a.b"], ["task", "tasks.done"]),
        (">", ["task", "task.done"], []),
        ("*", ["task"], ["task.done"]),
    ],
)
def test_pattern_fits(pattern: str, fits: list[str], differs: list[str]) -> None:
    """X-05: `*` stands for one part, a last `>` for one part or more."""
    compiled = TypePattern(pattern)
    assert [compiled.matches(type) for type in fits * 2] == [True] * len(fits) * 2
    assert [compiled.matches(type) for type in differs] == [False] * len(differs)


@pytest.mark.parametrize("pattern", ["", "a..b", ">.a", "a.>.b", ".", "a*", "a.*>", "x" * 256])
def test_pattern_without_a_meaning_is_refused(pattern: str) -> None:
    """Promise 11."""
    with pytest.raises(InvalidInput, match="is not a type pattern"):
        TypePattern(pattern)


@pytest.mark.parametrize("pattern", [" ", "a b", "a. b", "a.* ", "-a", "-", "a\n", "a..b"])
def test_pattern_that_no_type_of_ours_fits_is_refused_where_it_is_new(pattern: str) -> None:
    """Promise 11; but what another program has stored must not stop a list of queues."""
    with pytest.raises(InvalidInput, match="is not a type pattern"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "act",
    [
        parse_ts,
        parse_duration_ms,
        lambda text: parse_since(text, now=0),
        parse_priority,
        lambda text: parse_priority([text]),
        lambda text: parse_ts("9" * 1000 if text else ""),
        TypePattern,
        lambda text: FieldMap([text]),
        lambda text: FieldMap([f"{text}=x"]),
        lambda text: FieldMap([f"id={text}"]).draft({}),
        lambda text: Draft("t", from_agent="a", priority=text).prepare(0),
        lambda text: Draft("t", from_agent="a", ts_ms=text).prepare(0),
        lambda text: parse_response(encode({"status": "ok", "result": "", "protocol": text})),
        lambda text: parse_pattern("[" + text[:1000]),
        lambda text: parse_pattern("/" + text[:1000]),
    ],
)
def test_an_error_repeats_only_a_little_of_what_was_given(act: Callable[[str], object]) -> None:
    """Promise 11: one line that can be read; the report of an import keeps 1,000 of them."""
    with pytest.raises(InvalidInput) as caught:
        act("x\n" * 100_000)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_times_are_integers_stored_and_rfc_3339_shown() -> None:
    """X-07, M-30: both ways, to the millisecond."""
    assert format_ts(0) == "1970-01-01T00:00:00.000Z"
    assert format_ts(TS_MS) == "2026-01-10T14:00:00.007Z"
    assert format_ts(253_402_300_799_999) == "9999-12-31T23:59:59.999Z"
    assert format_ts(-1) == "-1"  # of a program with SQL of its own
    for text in ("2026-01-10T14:00:00.007Z", "2026-01-10T15:00:00.007+01:00", str(TS_MS)):
        assert parse_ts(text) == TS_MS
    assert parse_ts("2026-01-10T14:00:00.0079Z") == TS_MS
    for text in ("yesterday", "", "-1", "1" * 30, "0001-01-01T00:00:00Z"):
        with pytest.raises(InvalidInput):
            parse_ts(text)


def test_durations_have_units() -> None:
    """X-07: bare numbers are seconds; a time may be given as an age."""
    texts = ["90", "1.5s", "250ms", "10m", "2h", "7d"]
    assert [parse_duration_ms(text) for text in texts] == [
        90_000, 1500, 250, 600_000, 7_200_000, 604_800_000,
    ]  # fmt: skip
    assert parse_since("10m", TS_MS) == TS_MS - 600_000
    assert parse_since("2026-01-10T14:00:00.007Z", 0) == TS_MS
    for text in ("", "m", "-5s", "5 s", "1e3", "9" * 20):
        with pytest.raises(InvalidInput):
            parse_duration_ms(text)


def test_priority_has_three_levels() -> None:
    """M-30: shown by name, left out when normal; anything else is refused."""
    assert [parse_priority(name) for name in ("interactive", "normal", "background")] == [0, 1, 2]
    for value in ("urgent", 3, -1, None, True):
        with pytest.raises(InvalidInput, match="priority must be interactive, normal, background"):
            parse_priority(value)


def test_payload_and_payload_ref_of_a_draft_exclude_each_other(bus: Bus) -> None:
    """M-15, promise 11."""
    ref = bus.blobs.put(orjson.dumps("x"))
    with pytest.raises(InvalidInput, match="a payload or a payload_ref, not both"):
        bus.publish_many([Draft("note", 1, from_agent="bob", payload_ref=ref)])
    bus.publish_many([Draft("note", ABSENT, from_agent="bob", payload_ref=ref)])
    assert [message.payload for message in bus.read()] == ["x"]


@pytest.mark.parametrize("name", [5, ["a"], {}])
def test_payload_ref_that_is_no_text_is_refused(name: object, bus: Bus) -> None:
    """M-92, promise 11: an imported line may hold anything there."""
    with pytest.raises(InvalidInput, match="payload_ref"):
        bus.publish_many([Draft("note", from_agent="bob", payload_ref=name)])  # type: ignore[arg-type]
    assert bus.log.newest_seq() == 0


def test_number_beyond_64_bits_gives_one_line(bus: Bus) -> None:
    """Promise 11: whatever it is the number of."""
    for use in (
        lambda: bus.get(2**63),
        lambda: list(bus.read(after_seq=2**64)),
        lambda: Inbox(bus, "alice").poll(2**63),
        lambda: Inbox(bus, "alice").requeue(2**63),
    ):
        with pytest.raises(InvalidInput, match="64 bits"):
            use()


@pytest.mark.parametrize("number", ["18446744073709551616", "-9223372036854775809", "1" * 30])
def test_integers_beyond_64_bits_are_refused_when_read(number: str) -> None:
    """Pitfall 21: a parser would round them in silence."""
    with pytest.raises(InvalidInput, match="beyond 64 bits; send it as a string"):
        decode(f'{{"n": [{number}]}}')


def test_long_digits_that_are_no_such_integer_are_read() -> None:
    """Pitfall 21: in strings, in fractions, and up to the very edge of 64 bits."""
    text = f'["{"1" * 40}", 0.{"1" * 40}, {2**64 - 1}, {-(2**63)}]'
    assert decode(text) == ["1" * 40, float(f"0.{'1' * 40}"), 2**64 - 1, -(2**63)]


@pytest.mark.parametrize("depth", [*range(246, 258), 1000])
def test_json_that_is_nested_too_deep_to_be_written_is_text(
    bus: Bus, bus_dir: Path, depth: int
) -> None:
    """Another program may store it; it must not end a reader, an exporter or a worker."""
    deep = '{"a":' * depth + "1" + "}" * depth
    insert = (
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload, headers)"
        " VALUES ('deep', 1, 'x', 'n', ?, ?)"
    )
    file_of(bus).change(insert, (deep, deep))
    message = bus.get("deep")
    assert message is not None
    Exporter(bus).export_once()
    line = json.loads((bus_dir / "bus.jsonl").read_text())
    assert json.loads(message.to_json())["id"] == line["id"] == "deep"
    if depth > 250:
        assert message.payload_error == "decode_failed"
        assert (line["payload"], line["headers"]) == (deep, {"decode_failed": deep})
    else:
        assert json.dumps(line["payload"], separators=(",", ":")) == deep


@pytest.mark.parametrize("depth", range(246, 258))
def test_what_can_be_published_can_be_read_and_written(bus: Bus, depth: int) -> None:
    deep: object = 1
    for _ in range(depth):
        deep = [deep]
    if depth > 250:
        with pytest.raises(InvalidInput, match=r"nested too deep|Recursion"):
            bus.publish("n", deep, from_agent="x")
    else:
        bus.publish("n", deep, from_agent="x")
        (message,) = bus.read()
        assert message.payload == deep
        assert json.loads(message.to_json())["payload"] == deep
