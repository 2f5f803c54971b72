"""The hash chain: what is in it, that it costs nothing where it is off, and what it shows."""

import hashlib
import io
from pathlib import Path

import pytest

from ackbus import Bus, Draft
from ackbus.bus.verification import STEP_BYTES, STEP_MESSAGES, Chain, Link, Problem, Verification
from ackbus.export.archive_writer import Archiver
from ackbus.export.jsonl.exporter import Exporter
from ackbus.schema.queries import file_of

from .. import programs
from ..programs import raw_sql, run_program


def chain_of_lines(lines: list[bytes]) -> bytes:
    """The chain by docs/protocol.md, from the lines of bus.jsonl alone."""
    digest = bytes(32)
    for line in lines:
        digest = hashlib.sha256(digest + line.rstrip(b"\n")).digest()
    return digest


def problems(bus: Bus, **options: object) -> list[tuple[str, int]]:
    """The kinds and places of what is wrong with the chain of a bus."""
    walk = Verification(bus, **options)  # type: ignore[arg-type]
    return [(problem.kind, problem.seq) for problem in walk.problems()]


@pytest.fixture
def chained(bus: Bus) -> Bus:
    """A bus that is chained, with ten messages of several forms."""
    bus.chain.switch_on()
    first = bus.publish("t", {"é": 1.5}, from_agent="a", headers={"h": [1]})
    bus.publish("t", "x" * 5000, from_agent="a", to_agent="a")
    bus.publish("t", from_agent="a", in_reply_to=first.id)
    bus.publish_many([Draft("t", number, from_agent="a") for number in range(7)])
    return bus


def tamper(bus: Bus, *statements: str) -> None:
    """Runs statements as another program, which turns triggers off."""
    programs.tamper(Path(bus.layout.directory), *statements)


def test_chain_is_that_of_the_lines_of_bus_jsonl(chained: Bus) -> None:
    """The export is enough to compute it, without the bus."""
    Exporter(chained).export_once()
    lines = Path(chained.layout.jsonl).read_bytes().splitlines()
    assert chained.chain.head() == Link(10, chain_of_lines(lines))
    assert [link.seq for link in chained.chain.links(0, 10)] == list(range(1, 11))
    assert problems(chained) == []


def test_what_is_published_is_chained_in_the_same_transaction(chained: Bus) -> None:

    class UndoneError(Exception):
        pass

    def publish_and_undo() -> None:
        with chained.transaction():
            chained.publish("t", from_agent="a")
            assert [link.seq for link in chained.chain.links(10, 99)] == [11]
            raise UndoneError

    with pytest.raises(UndoneError):
        publish_and_undo()
    assert [link.seq for link in chained.chain.links(9, 99)] == [10]
    assert chained.chain.behind() == 0
    assert problems(chained) == []


def test_messages_of_other_programs_are_taken_in_by_the_next_publisher(chained: Bus) -> None:
    raw_sql(
        Path(chained.layout.directory),
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload)"
        " VALUES ('raw', 1, 'b', 't', '{ \"spaced\" :\n1}')",
    )
    assert chained.chain.behind() == 1
    chained.publish("t", from_agent="a")
    assert chained.chain.behind() == 0
    assert problems(chained) == []


def test_what_is_imported_is_chained(chained: Bus) -> None:
    line = b'{"id":"m","ts":"2020-01-01T00:00:00.000Z","from":"b","type":"t","payload":{"b":1}}\n'
    assert chained.import_jsonl(io.BytesIO(line)).stored == 1
    assert chained.chain.behind() == 0
    assert problems(chained) == []


def test_history_is_chained_in_steps(bus: Bus) -> None:
    bus.publish_many([Draft("t", from_agent="a")] * (STEP_MESSAGES + 5))
    bus.chain.switch_on()
    bus.publish("t", from_agent="a")
    assert bus.chain.behind() == 6  # a publisher does one step, so that others wait for no more
    told: list[int] = []
    bus.chain.catch_up(told.append)
    assert told == [STEP_MESSAGES + 6]
    assert problems(bus) == []


def test_step_over_large_messages_is_of_fewer(bus: Bus) -> None:
    large = Draft("t", "x" * 4000, from_agent="a")
    bus.publish_many([large] * 2000)
    bus.chain.switch_on()
    bus.publish("t", from_agent="a")
    assert 2001 - bus.chain.behind() == pytest.approx(STEP_BYTES / 4100, rel=0.1)
    bus.publish_many([large] * 1500)
    assert bus.chain.behind() == pytest.approx(2001 - STEP_BYTES / 4100, rel=0.1)  # no further


def test_chain_keeps_up_with_batches_larger_than_a_step(chained: Bus) -> None:
    chained.publish_many([Draft("t", from_agent="a")] * (STEP_MESSAGES + 5))
    assert chained.chain.behind() == 0


def test_archived_messages_are_chained_and_verified(bus: Bus) -> None:
    """A message's line is the same in the archive; its digest stays."""
    for number in range(10):
        bus.publish("t", {"number": number / 7}, from_agent="a")
    with Archiver(bus) as archiver:
        archiver.archive(4)
        bus.chain.switch_on()
        bus.chain.catch_up()
        archiver.archive(8)
    assert bus.chain.head() == Link(10, chain_of_lines([m.to_line() for m in bus.read()]))
    assert problems(bus) == []


def test_switch_is_seen_by_programs_that_run_within_a_minute(bus_dir: Path) -> None:
    now = 1_768_053_600_000
    with Bus.open(bus_dir, clock=lambda: now) as bus, Bus.open(bus_dir) as other:
        bus.publish("t", from_agent="a")
        other.chain.switch_on()
        bus.publish("t", from_agent="a")
        assert bus.chain.head() is None
        now += 60_001
        bus.publish("t", from_agent="a")
        assert bus.chain.behind() == 0
        other.chain.switch_off()
        other.chain.switch_off()
        now += 60_001
        bus.publish("t", from_agent="a")
        assert (bus.chain.is_on(), bus.chain.behind()) == (False, 1)
        other.chain.switch_on()
        other.chain.switch_on()
        bus.chain.catch_up()
        assert problems(bus) == []


@pytest.mark.slow
def test_chain_of_many_processes_has_every_message_once(bus_dir: Path) -> None:
    with Bus.open(bus_dir) as bus:
        bus.chain.switch_on()
        run_program(
            """
            import subprocess, sys
            one = '''
            import sys
            from ackbus import Bus
            with Bus.open(sys.argv[1]) as bus:
                for _ in range(100):
                    bus.publish("t", from_agent="a")
            '''
            command = [sys.executable, "-c", __import__("textwrap").dedent(one), sys.argv[1]]
            all = [subprocess.Popen(command) for _ in range(4)]
            assert [each.wait() for each in all] == [0, 0, 0, 0]
            """,
            bus_dir,
        )
        assert [link.seq for link in bus.chain.links(0, 1000)] == list(range(1, 401))
        assert problems(bus) == []


# Tampering -----------------------------------------------------------------------------------

CHANGES: dict[str, tuple[tuple[str, ...], list[tuple[str, int]]]] = {
    "a payload": (("UPDATE messages SET payload = '9' WHERE seq = 5",), [("altered", 5)]),
    "a time": (("UPDATE messages SET ts_ms = ts_ms + 1 WHERE seq = 1",), [("altered", 1)]),
    "two": (
        ("UPDATE messages SET type = 'x' WHERE seq IN (4, 6)",),
        [("altered", 4), ("altered", 6)],
    ),
    "removed": (("DELETE FROM messages WHERE seq = 5",), [("missing", 5)]),
    "several removed": (
        ("DELETE FROM messages WHERE seq IN (5, 6, 8)",),
        [("missing", 5), ("missing", 8)],
    ),
    "the first": (("DELETE FROM messages WHERE seq = 1",), [("missing", 1)]),
    "the last": (("DELETE FROM messages WHERE seq = 10",), [("missing", 10)]),
    "removed with its link": (
        ("DELETE FROM messages WHERE seq = 5", "DELETE FROM chain WHERE seq = 5"),
        [("altered", 6)],
    ),
    "put back at another place": (
        ("UPDATE messages SET seq = 50 WHERE seq = 5",),
        [("missing", 5)],
    ),
    "exchanged": (
        (
            "UPDATE messages SET seq = 50 WHERE seq = 5",
            "UPDATE messages SET seq = 5 WHERE seq = 6",
            "UPDATE messages SET seq = 6 WHERE seq = 50",
        ),
        [("altered", 5), ("altered", 6)],
    ),
    "put into a gap": (
        (
            "DELETE FROM chain WHERE seq = 5",
            "UPDATE messages SET payload = '9' WHERE seq = 5",
        ),
        [("inserted", 5), ("altered", 6)],
    ),
    "a digest": (
        ("UPDATE chain SET digest = zeroblob(32) WHERE seq = 5",),
        [("altered", 5), ("altered", 6)],
    ),
    "nonsense": (
        ("PRAGMA ignore_check_constraints = ON", "UPDATE messages SET priority = 7 WHERE seq = 5"),
        [("altered", 5)],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_is_found_where_it_is(name: str, chained: Bus) -> None:
    """By a program that drops the triggers: altered, removed, inserted, exchanged."""
    statements, expected = CHANGES[name]
    tamper(chained, *statements)
    found = problems(chained)
    assert [each for each in found if each[1] < 50] == expected


def rewritten(bus: Bus) -> None:
    """An attack with knowledge of the chain: alter a message and compute all again."""
    tamper(bus, "UPDATE messages SET payload = '9' WHERE seq = 5", "DELETE FROM chain")
    bus.chain.catch_up()


def test_chain_that_was_computed_again_is_shown_by_a_kept_head(chained: Bus) -> None:
    """A writer of the file can write the chain; so its head is kept elsewhere."""
    kept = chained.chain.head()
    assert kept is not None
    chained.publish("t", from_agent="a")
    assert problems(chained, expected=kept) == []
    rewritten(chained)
    assert problems(chained) == []
    assert problems(chained, expected=kept) == [("head", 10)]


def test_log_that_was_cut_and_goes_on_is_shown_by_a_kept_head(chained: Bus) -> None:
    kept = chained.chain.head()
    tamper(
        chained,
        "DELETE FROM messages WHERE seq > 8",
        "DELETE FROM chain WHERE seq > 8",
    )
    assert problems(chained) == []
    assert problems(chained, expected=kept) == [("head", 10)]
    chained.publish("t", from_agent="a")
    chained.publish("t", from_agent="a")
    assert problems(chained, expected=kept) == [("head", 10)]


def test_verifying_begins_where_it_is_told(chained: Bus) -> None:
    tamper(chained, "UPDATE messages SET payload = '9' WHERE seq IN (3, 7)")
    assert problems(chained, from_seq=4) == [("altered", 7)]
    assert problems(chained, from_seq=8) == []
    assert problems(chained, from_seq=50) == []


def test_gaps_are_counted(chained: Bus) -> None:
    """Numbers may be missing in any bus; how many shows a rewritten one."""
    tamper(chained, "DELETE FROM messages WHERE seq IN (5, 6)", "DELETE FROM chain")
    chained.chain.catch_up()
    walk = Verification(chained)
    assert list(walk.problems()) == []
    assert (walk.counts.messages, walk.counts.chained, walk.counts.gaps) == (8, 8, 2)


def archived(bus: Bus) -> Path:
    """Archives the first eight messages, and returns the segment."""
    with Archiver(bus) as archiver:
        archiver.archive(8)
    (segment,) = Path(bus.layout.archive).iterdir()
    return segment


def test_archive_that_was_written_anew_is_found(chained: Bus) -> None:
    """With valid frames, sizes and sums, as only somebody does who means it."""
    segment = archived(chained)
    lines = [message.to_line() for message in chained.read(upto_seq=8)]
    lines[4] = lines[4].replace(b'"payload":1', b'"payload":9')
    import zstandard

    data = zstandard.ZstdCompressor(write_checksum=True).compress(b"\n".join([*lines, b""]))
    segment.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    raw_sql(
        Path(chained.layout.directory),
        f"UPDATE archive_segments SET bytes = {len(data)}, sha256 = '{digest}'",
        f"UPDATE archive_frames SET bytes = {len(data)}",
    )
    with Bus.open(chained.layout.directory) as again:
        assert again.archive.state_of(again.archive.segments()[0]) == "ok"
        assert problems(again) == [("altered", 5)]


def test_segment_that_is_gone_is_said_and_the_rest_is_verified(chained: Bus) -> None:
    archived(chained).unlink()
    tamper(chained, "UPDATE messages SET payload = '9' WHERE seq = 10")
    with Bus.open(chained.layout.directory) as again:
        found = list(Verification(again).problems())
        assert [(each.kind, each.seq) for each in found] == [("unreadable", 1), ("altered", 10)]
        assert "put it back" in found[0].text


def test_publishing_goes_on_where_the_chain_can_not(bus: Bus) -> None:
    """A lost segment holds nobody up; the chain goes on when it is back."""
    for _ in range(10):
        bus.publish("t", from_agent="a")
    segment = archived(bus)
    data = segment.read_bytes()
    segment.unlink()
    bus.chain.switch_on()
    with Bus.open(bus.layout.directory) as again:
        again.publish("t", from_agent="a")
        assert again.chain.head() is None
        segment.write_bytes(data)
        again.publish("t", from_agent="a")
        assert again.chain.behind() == 0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE chain SET digest = zeroblob(32)",
        "DELETE FROM chain",
        "INSERT OR REPLACE INTO chain (seq, digest) VALUES (10, zeroblob(32))",
        "INSERT INTO chain (seq, digest) VALUES (11, 'short')",
    ],
)
def test_file_refuses_a_change_of_the_chain_by_mistake(statement: str, chained: Bus) -> None:
    with pytest.raises(AssertionError, match=r"the chain is|cannot store TEXT|CHECK constraint"):
        raw_sql(Path(chained.layout.directory), statement)
    assert problems(chained) == []


def test_problem_says_in_words_which_message_it_is(chained: Bus) -> None:
    tamper(chained, "DELETE FROM messages WHERE seq IN (4, 5)")
    (found,) = Verification(chained).problems()
    assert found == Problem("missing", 4, "messages 4 to 5 are gone: the chain was there")


def test_off_is_as_if_there_were_no_chain(bus: Bus) -> None:
    """One statement for a publish, and no row."""
    bus.publish("t", from_agent="a")
    seen: list[str] = []

    def note(_cursor: object, sql: str, _bindings: object) -> bool:
        if sql != "PRAGMA schema_version":  # a look every 10 ms, whatever is done
            seen.append(sql)
        return True

    file_of(bus).connection.exec_trace = note
    bus.publish("t", from_agent="a")
    file_of(bus).connection.exec_trace = None
    assert [sql.split()[:3] for sql in seen] == [["INSERT", "INTO", "messages"]]
    assert isinstance(bus.chain, Chain)
    assert bus.chain.head() is None
