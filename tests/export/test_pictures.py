"""Pictures: every message is an arrow, nothing is left out in silence, and text stays text."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ackbus import Bus, Draft, FieldMap, Queue
from ackbus.bus.heartbeats import Heartbeat, Liveness
from ackbus.export.pictures.timeline import (
    PAUSE_WIDTH,
    TimeAxis,
    Timeline,
    length,
    pauses,
    timeline_svg,
)
from ackbus.export.pictures.traffic import (
    MAX_BLOB_BYTES,
    TEXT_CHARS,
    Arrow,
    Links,
    Traffic,
    cut_name,
    fitted,
    fitted_name,
    flowchart,
    sequence_diagram,
    width,
)
from ackbus.subscribers.jobs.claims import Claims

from ..conftest import RunBus
from ..programs import raw_sql, tamper
from .test_importer import H5I, H5I_MAP

pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")

SVG = "{http://www.w3.org/2000/svg}"
HOUR_MS = 3_600_000


def traffic_of(bus: Bus, limit: int = 200) -> Traffic:
    return Traffic.of(bus.read(), bus.blobs, limit=limit)


def arrow(seq: int, ts_ms: int, route: str = "a b", type: str = "note", text: str = "") -> Arrow:
    sender, recipient = route.split()
    to = None if recipient == "*" else recipient
    return Arrow(seq, f"m{seq}", ts_ms, sender, to, type, text)


def traffic(*arrows: Arrow, total: int | None = None) -> Traffic:
    return Traffic(arrows, len(arrows) if total is None else total)


def titles(svg: str) -> list[str]:
    """The texts shown on hovering, in order of drawing; the first is the picture's own."""
    return [title.text or "" for title in ElementTree.fromstring(svg).iter(f"{SVG}title")]


def shown(svg: str) -> list[str]:
    """All text of a picture but that for hovering."""
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def messages_in(svg: str) -> list[int]:
    """The seqs of the messages that a picture has, in order of drawing."""
    return [int(match[1]) for title in titles(svg) if (match := re.match(r"#(\d+) ", title))]


def arrows_in(mermaid: str) -> list[str]:
    """The lines of a sequence diagram that are messages."""
    return re.findall(r"^    (p\d+-?->>p\d+): ", mermaid, re.MULTILINE)


@pytest.fixture
def talk(bus: Bus) -> Bus:
    """A bus with a broadcast, an answer, a note to oneself, and a message without a payload."""
    bus.publish("start", "hello; <all>", from_agent="lead", id="m1")
    bus.publish("re", {"n": 1}, from_agent="ann", to_agent="lead", in_reply_to="m1")
    bus.publish("note", "to me", from_agent="ann", to_agent="ann")
    bus.publish("ping", from_agent="lead", to_agent="ann")
    return bus


def test_a_sequence_diagram_has_an_arrow_for_each_message(talk: Bus) -> None:
    """Replies are dashed; broadcasts go to everybody, who comes last."""
    text = sequence_diagram(traffic_of(talk))
    lines = text.splitlines()
    assert lines[:4] == [
        "sequenceDiagram",
        "    participant p1 as lead",
        "    participant p2 as ann",
        "    participant p3 as everybody",
    ]
    assert lines[4].startswith("    Note over p1,p3: 2")
    assert lines[5:] == [
        "    p1->>p3: 1 start<br/>hello#59; #60;all#62;",
        '    p2-->>p1: 2 re<br/>{"n"#58;1}',
        "    p2->>p2: 3 note<br/>to me",
        "    p1->>p2: 4 ping",
    ]


def test_a_job_is_drawn_to_the_worker_that_has_it(talk: Bus, run_bus: RunBus) -> None:
    """And to everybody as long as none has; on the time line as in both graphs."""
    queue = Queue.create(talk, "start")
    for lines in (run_bus("graph", "m1").out, run_bus("graph", "--agents").out):
        assert "everybody" in lines
    queue.claim("smith")
    assert (Claims.of(talk).worker_of(1), Claims.of(talk).worker_of(2)) == ("smith", None)
    for lines in (run_bus("graph", "m1").out, run_bus("graph", "--agents").out):
        assert ("everybody" in lines, "smith" in lines) == (False, True)
    svg = run_bus("timeline").out
    assert ("lead → smith" in svg, "everybody" in svg) == (True, False)


def test_the_counts_of_a_flowchart_are_the_messages(talk: Bus) -> None:
    talk.publish("ping", from_agent="lead", to_agent="ann")
    links = Links.of(talk.read(), limit=60)
    assert flowchart(links).splitlines() == [
        "flowchart LR",
        '    p1["lead"]',
        '    p2["ann"]',
        '    p3(["everybody"])',
        '    p1 -->|"1"| p3',
        '    p2 -->|"1"| p1',
        '    p2 -->|"1"| p2',
        '    p1 -->|"2"| p2',
    ]
    assert sum(link.count for link in links.links) == links.messages == 5


def test_the_quiet_pairs_are_left_out_and_that_is_said(talk: Bus) -> None:
    talk.publish("ping", from_agent="lead", to_agent="ann")
    links = Links.of(talk.read(), limit=1)
    assert [(link.sender, link.recipient, link.count) for link in links.links] == [
        ("lead", "ann", 2)
    ]
    assert links.extent == "5 messages, the 1 busiest of 4 pairs"


def test_only_the_newest_are_drawn_and_that_is_said(talk: Bus) -> None:
    newest = traffic_of(talk, limit=2)
    assert [arrow.seq for arrow in newest.arrows] == [3, 4]
    assert newest.is_cut
    assert "the newest 2 of 4 messages" in sequence_diagram(newest)
    svg = timeline_svg(Timeline.of(newest), "T")
    assert messages_in(svg) == [3, 4]
    assert any("the newest 2 of 4 messages" in text for text in shown(svg))


def test_a_large_payload_is_cut_and_a_huge_one_is_not_read(bus: Bus) -> None:
    bus.publish("long", "word " * 2000, from_agent="a")
    bus.publish("huge", "x" * (MAX_BLOB_BYTES + 1), from_agent="a")
    bus.publish("gone", "y" * 5000, from_agent="a")
    gone = bus.get(3)
    assert gone is not None
    assert gone.payload_ref is not None
    bus.blobs.remove(gone.payload_ref)
    long, huge, missing = traffic_of(bus).arrows
    assert len(long.text) <= TEXT_CHARS
    assert long.text.endswith("word…")
    assert huge.text == f"[blob, {MAX_BLOB_BYTES + 3:,} bytes]"
    assert missing.text == "[blob_missing]"
    assert max(map(len, sequence_diagram(traffic_of(bus)).splitlines())) < 120


def test_what_a_raw_writer_stored_is_drawn(bus: Bus, bus_dir: Path) -> None:
    """Pitfall 24: control characters of names, types and payloads are shown, and do nothing.

    The triggers are off: they would refuse the second time, which is none.
    """
    tamper(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, payload, payload_ref) VALUES"
        " ('a' || char(10) || 'b', 1, 'x' || char(27) || '[31m', 'end', 'no te', 'no json', NULL),"
        " ('c', 99999999999999999, char(0x202e) || 'evil', NULL, ' ', NULL, 'no blob')",
    )
    drawn = traffic_of(bus)
    links = Links.of(bus.read(), limit=60)
    pictures = [
        sequence_diagram(drawn),
        flowchart(links),
        timeline_svg(Timeline.of(drawn), "T"),
    ]
    for picture in pictures:
        assert picture.replace("\n", "").isprintable()
    assert len(arrows_in(pictures[0])) == 2
    assert r"x\x1b[31m" in shown(pictures[2])


def test_a_name_of_spaces_is_not_everybody(bus: Bus, bus_dir: Path) -> None:
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type)"
        " VALUES ('a', 1, ' ', 'b', 't')",
    )
    assert traffic_of(bus).agents == ["' '", "b"]
    assert Links.of(bus.read(), limit=60).lanes == ["' '", "b"]


# The time line ------------------------------------------------------------------------------


def heartbeat(agent: str, ts_ms: int, status: str = "idle") -> Heartbeat:
    return Heartbeat(agent, ts_ms, status, None, None, None, 0.0, Liveness.ALIVE)


def test_an_agent_is_there_from_its_first_trace_to_its_last() -> None:
    """Messages that it sent and its last heartbeat; one who was only written to was not there."""
    messages = traffic(arrow(1, 1000, "a b"), arrow(2, 5000, "b c"), arrow(3, 6000, "a *"))
    beats = [heartbeat("b", 9000, "stopped"), heartbeat("d", 7000), heartbeat("old", 10)]
    timeline = Timeline.of(messages, beats)
    there = {p.agent: (p.first_ms, p.last_ms, p.stopped) for p in timeline.presences}
    assert there == {"a": (1000, 6000, False), "b": (5000, 9000, True), "d": (7000, 7000, False)}
    assert timeline.lanes == ["a", "b", "c", "d", None]
    assert (timeline.first_ms, timeline.last_ms) == (1000, 9000)
    svg = timeline_svg(timeline, "T")
    assert messages_in(svg) == [1, 2, 3]
    (told,) = [title for title in titles(svg) if title.startswith("b: ")]
    assert told.endswith("1970-01-01T00:00:09.000Z, stopped")


def test_a_long_pause_is_left_out_and_an_even_pace_is_not() -> None:
    even = [n * 60_000 for n in range(20)]
    assert pauses(even) == []
    assert pauses([0, 60_000]) == pauses([7]) == []
    night = [*even, *(moment + 12 * HOUR_MS for moment in even)]
    assert pauses(night) == [(even[-1], 12 * HOUR_MS)]


def test_a_short_pause_among_long_ones_stays() -> None:
    days = [day * 24 * HOUR_MS + minute * 60_000 for day in (0, 1, 5) for minute in range(0, 60, 4)]
    days.append(days[-1] + 6 * 60_000)
    assert [end - start for start, end in pauses(days)] == [24 * HOUR_MS - 56 * 60_000] * 1 + [
        4 * 24 * HOUR_MS - 56 * 60_000
    ]


def test_the_axis_is_even_between_pauses() -> None:
    axis = TimeAxis(0, 100_000, [(20_000, 60_000)], 0, 600 + PAUSE_WIDTH)
    assert [axis.x(ts) for ts in (0, 10_000, 20_000)] == [0, 100, 200]
    assert axis.x(60_000) == pytest.approx(200 + PAUSE_WIDTH)
    assert axis.x(100_000) == pytest.approx(600 + PAUSE_WIDTH)
    assert axis.x(30_000) == 200
    assert axis.x(-5) == 0
    assert axis.pauses() == [(200, "40 s")]
    names = [(label.clock, label.date) for label in axis.labels()]
    assert names[0] == ("00:00:00", "1970-01-01")
    assert ("00:01:00", None) in names
    places = [label.x for label in axis.labels()]
    assert all(second - first >= 70 for first, second in pairwise(places))


@pytest.mark.parametrize(
    ("ms", "text"),
    [(400, "0 s"), (40_000, "40 s"), (150_000, "2 min"), (14 * HOUR_MS, "14 h"), (10**9, "12 d")],
)
def test_lengths_are_said_as_people_say_them(ms: int, text: str) -> None:
    assert length(ms) == text


def test_one_moment_alone_can_be_drawn() -> None:
    svg = timeline_svg(Timeline.of(traffic(arrow(1, 5, "a a"))), "T")
    assert messages_in(svg) == [1]


# Text ---------------------------------------------------------------------------------------


def test_text_is_cut_to_its_room() -> None:
    assert fitted("short", 100, 12) == "short"
    cut = fitted("a rather long piece of text", 80, 12)
    assert cut.endswith("…")
    assert width(cut, 12) <= 80
    assert fitted("日本語のテキスト", 60, 12) == "日本語…"


def test_names_that_differ_at_their_ends_still_differ_when_they_are_cut() -> None:
    """Issue 4, item 4: agents of one kind are told apart by a number."""
    names = [f"agent-with-a-rather-long-name-{number}" for number in (1, 2)]
    first, second = (fitted_name(name, 120, 12) for name in names)
    assert first.startswith("agent-")
    assert "…" in first
    assert (first[:-1], first[-1], second[-1]) == (second[:-1], "1", "2")
    assert width(first, 12, bold=True) <= 120
    assert fitted_name(None, 120, 12) == "everybody"
    assert cut_name("abcdefgh", 8) == "abcdefgh"
    assert cut_name("abcdefghi", 8) == "abcd…ghi"
    talk = traffic(arrow(1, 1, " ".join(names)))
    drawn = timeline_svg(Timeline.of(talk), "T")
    assert len({text for text in shown(drawn) if text.startswith("agent-")}) == 2


# Real traffic -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    if not H5I.exists():
        pytest.skip("the real traffic, shared/data/h5i-messages.jsonl, is not beside this clone")
    with Bus.init(tmp_path_factory.mktemp("real") / ".worker-state") as bus:
        with H5I.open("rb") as stream:
            bus.import_jsonl(stream, field_map=FieldMap(H5I_MAP))
        yield bus


def test_real_traffic_is_drawn_whole(real: Bus) -> None:
    """297 messages: as many arrows in each picture, and the counts of the pairs add up."""
    drawn = traffic_of(real, limit=1000)
    links = Links.of(real.read(), limit=60)
    assert len(arrows_in(sequence_diagram(drawn))) == 297
    timeline = Timeline.of(drawn)
    assert messages_in(timeline_svg(timeline, "All")) == list(range(1, 298))
    assert 5 <= len(timeline.pauses) <= 12
    assert sum(link.count for link in links.links) == 297
    assert len(links.links) == flowchart(links).count("-->") == 5


def test_a_real_diagram_of_dozens_fits_the_limits_of_mermaid(real: Bus) -> None:
    """Mermaid refuses text of more than 50,000 characters; 200 messages stay below it."""
    text = sequence_diagram(traffic_of(real, limit=200))
    assert len(arrows_in(text)) == 200
    assert len(text) < 50_000


def test_drafts_in_any_order_of_time_are_drawn(bus: Bus) -> None:
    """Clocks step: seq is the order of arrows, time only their place on the axis."""
    bus.publish_many(
        [Draft("t", from_agent="a", to_agent="b", ts_ms=ts) for ts in (9_000, 1_000, 5_000)]
    )
    drawn = traffic_of(bus)
    assert len(arrows_in(sequence_diagram(drawn))) == 3
    timeline = Timeline.of(drawn)
    assert (timeline.first_ms, timeline.last_ms) == (1_000, 9_000)
    assert messages_in(timeline_svg(timeline, "T")) == [1, 2, 3]
