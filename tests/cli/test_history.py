"""bus replay, read, show, tail, stats, and streams that end in the middle."""

import json
import subprocess
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.schema.queries import file_of

from ..conftest import RunBus
from .conftest import BUS, StartBus, assert_error

pytestmark = pytest.mark.usefixtures("bus_dir")


@pytest.fixture
def filled(bus: Bus) -> Bus:
    root = bus.publish("task.assign", {"n": 1}, from_agent="lead")
    bus.publish("task.done", "x" * 6000, from_agent="w", in_reply_to=root.id)
    bus.publish("note", "hello", from_agent="w", id="77")
    return bus


def test_replay_json_is_byte_for_byte_bus_jsonl(
    run_bus: RunBus, filled: Bus, bus_dir: Path
) -> None:
    """C-10, C-11, M-82: inclusive, the same bytes as the export."""
    assert run_bus("export", "--json").code == 0
    replayed = run_bus("replay", "--from", "1", "--json")
    assert replayed.out.encode() == (bus_dir / "bus.jsonl").read_bytes()
    lines = replayed.out.splitlines(keepends=True)
    middle = run_bus("replay", "--from", "2", "--to", "2", "--json").out
    assert middle == lines[1]
    typed = run_bus("replay", "--from", "1", "--type", "task.*", "--json").out
    assert typed == lines[0] + lines[1]


def test_replay_past_the_end_says_so(run_bus: RunBus, filled: Bus) -> None:
    assert_error(run_bus("replay", "--from", "4"), 4, "ends at 3")
    assert run_bus("replay", "--from", "1", "--type", "nothing").code == 4
    assert run_bus("replay").out == run_bus("replay", "--from", "1").out != ""
    assert_error(run_bus("replay", "--from", "0"), 2, "0")
    assert_error(run_bus("replay", "--from", "3", "--to", "2"), 2, "--to")
    assert_error(run_bus("replay", "--from", "3", "--to", "4", "--follow"), 2, "--follow")


@pytest.mark.parametrize(
    "arguments", [("replay", "--from", "2", "--follow"), ("tail", "-n2", "-f")]
)
def test_followers_see_each_message_at_once(
    arguments: tuple[str, ...], start_bus: StartBus, filled: Bus
) -> None:
    """C-11: streams are flushed line by line."""
    process = start_bus(*arguments, "--json")
    assert process.stdout is not None
    seqs = [json.loads(process.stdout.readline())["seq"] for _ in range(2)]
    filled.publish("t", from_agent="a")
    seqs.append(json.loads(process.stdout.readline())["seq"])
    assert seqs == [2, 3, 4]


def test_tail_of_an_empty_log_follows_from_its_beginning(start_bus: StartBus, bus: Bus) -> None:
    process = start_bus("tail", "-f")
    assert process.stdout is not None
    bus.publish("t", "first", from_agent="a")
    assert process.stdout.readline().endswith(b"first\n")


def test_tail_prints_the_newest(run_bus: RunBus, filled: Bus) -> None:
    assert [line[0] for line in run_bus("tail", "-n", "2").out.splitlines()] == ["2", "3"]
    for _ in range(10):
        filled.publish("t", from_agent="a")
    assert len(run_bus("tail").out.splitlines()) == 10


@pytest.mark.parametrize(
    ("arguments", "seqs"),
    [
        ((), [1, 2, 3]),
        (("--type", "task.>"), [1, 2]),
        (("--agent", "w"), [2, 3]),
        (("--limit", "1"), [1]),
        (("--since", "1h"), [1, 2, 3]),
        (("--since", "2020-01-01T00:00:00Z", "--agent", "lead"), [1]),
    ],
)
def test_read_filters(
    arguments: tuple[str, ...], seqs: list[int], run_bus: RunBus, filled: Bus
) -> None:
    found = run_bus("read", *arguments, "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in found] == seqs


def test_read_shows_a_conversation_in_order(run_bus: RunBus, filled: Bus) -> None:
    """M-96: everything of one task, by its conversation, in order."""
    root = next(filled.read())
    found = run_bus("read", "--conversation", root.id, "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in found] == [1, 2]


@pytest.mark.parametrize("command", ["read", "inspect", "search word"])
def test_conversation_is_named_by_its_id_or_by_the_seq_of_a_message(
    command: str, run_bus: RunBus, bus: Bus
) -> None:
    """As graph and trace take it; a conversation that is called by a number is meant first."""
    for conversation in ("c", "c", "1"):
        bus.publish("t", "word", from_agent="a", correlation_id=conversation)

    def found(key: str) -> list[int]:
        done = run_bus(*command.split(), "--conversation", key, "--json")
        return sorted(json.loads(line)["seq"] for line in done.out.splitlines())

    assert [found(key) for key in ("c", "2", "1", "3", "9")] == [[1, 2], [1, 2], [3], [3], []]


def test_nothing_found_is_4(run_bus: RunBus, bus: Bus) -> None:
    for line in (("read",), ("tail",), ("agents",), ("lease", "list"), ("parked", "list")):
        done = run_bus(*line)
        assert (done.code, done.out, done.err) == (4, "", ""), line
    assert_error(run_bus("read", "--since", "yesterday"), 2, "yesterday")


def test_show_takes_a_seq_or_an_id(run_bus: RunBus, filled: Bus) -> None:
    shown = run_bus("show", "1")
    assert "type:         task.assign" in shown.out
    assert '{\n  "n": 1\n}' in shown.out
    assert json.loads(run_bus("show", "77", "--json").out)["seq"] == 3  # no seq 77: an id
    assert json.loads(run_bus("show", "2", "--json").out)["payload"] == "x" * 6000
    for key in ("99", "nothing", "9" * 30, "-"):
        assert_error(run_bus("show", key), 4, "no message")


def test_lists_of_the_log_show_a_blob_and_do_not_read_it(
    run_bus: RunBus, bus: Bus, bus_dir: Path
) -> None:
    """X-19: large payloads stay where they are until somebody asks for one."""
    bus.publish("t", "x" * 99_998, from_agent="a")
    (ref,) = bus.blobs
    note = f"[blob, 100,000 bytes, {ref[:15]}…]"
    (bus_dir / "blobs" / ref).write_bytes(b"y" * 100_000)  # whoever reads it finds it altered
    lines = [("read",), ("tail",), ("replay", "--from", "1")]
    for line in lines:
        assert run_bus(*line).out.endswith(f"  {note}\n"), line
    (bus_dir / "blobs" / ref).unlink()
    for line in lines:
        assert run_bus(*line).out.endswith("  [blob_missing]\n"), line


def test_show_says_how_to_get_a_payload_that_it_can_not_show(run_bus: RunBus, bus: Bus) -> None:
    """X-19, promise 9: what is no payload is a blob still."""
    ref = bus.blobs.put(b"\x89PNG")
    bus.publish("t", from_agent="a", payload_ref=ref)
    file_of(bus).rows(
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload_ref)"
        " VALUES ('raw', 1, 'a', 't', 'no-blob')"
    )
    shown = run_bus("show", "1").out.splitlines()
    hint = f"[blob, 4 bytes, {ref[:15]}…]; get it with bus blob get {ref}"
    assert shown[-1] == f"payload:      [decode_failed] {hint}"
    assert run_bus("show", "2").out.splitlines()[-1] == "payload:      [blob_missing]"


def test_show_prints_headers_as_json_and_priorities_by_name(run_bus: RunBus, bus: Bus) -> None:
    bus.publish("t", from_agent="a", headers={"ok": True, "n": None, "é": 1}, priority=2)
    lines = run_bus("show", "1").out.splitlines()
    assert 'headers:      {"n": null, "ok": true, "é": 1}' in lines
    assert "priority:     background" in lines


def test_stats_count_everything(run_bus: RunBus, filled: Bus, bus_dir: Path) -> None:
    file_of(filled).rows("PRAGMA wal_checkpoint(TRUNCATE)")
    stats = json.loads(run_bus("stats", "--json").out)
    assert stats["dir"] == str(bus_dir)
    assert (stats["messages"], stats["newest_seq"]) == (3, 3)
    assert stats["by_type"] == {"note": 1, "task.assign": 1, "task.done": 1}
    assert stats["by_from"] == {"lead": 1, "w": 2}
    assert stats["blobs"] == {"count": 1, "bytes": 6002}
    assert stats["export"] == {"last_seq": 0, "behind": 3}
    assert stats["files"]["bus.db"] == (bus_dir / "bus.db").stat().st_size
    text = run_bus("stats").out
    assert "by_type task.done" in text


@pytest.mark.slow
def test_closed_pipe_ends_a_command_quietly(filled: Bus, bus_env: dict[str, str]) -> None:
    """Issue 2, item 10: `bus replay | head -1`."""
    for number in range(3000):
        filled.publish("t", f"{number} {'x' * 100}", from_agent="a")
    done = subprocess.run(
        ["sh", "-c", f"({BUS} replay --from 1; echo $? >&2) | head -1"],
        capture_output=True,
        text=True,
        cwd=filled.layout.directory,
        env=bus_env,
        check=True,
    )
    assert done.stdout.startswith("1  ")
    assert done.stderr == "141\n"


def test_full_output_is_an_error(filled: Bus, bus_env: dict[str, str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [BUS, "replay", "--from", "1"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=filled.layout.directory,
            env=bus_env,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "bus: No space left on device\n")


def test_closed_standard_streams_are_errors(filled: Bus, bus_env: dict[str, str]) -> None:
    for command, what in (("replay --from 1 >&-", "output"), ("publish t - --from a <&-", "input")):
        done = subprocess.run(
            ["sh", "-c", f"{BUS} {command}"],
            capture_output=True,
            text=True,
            cwd=filled.layout.directory,
            env=bus_env,
            check=False,
        )
        assert done.returncode in (1, 2)
        assert done.stderr == f"bus: the standard {what} is closed\n"
    assert filled.log.newest_seq() == 3


def test_tail_of_a_type_shows_its_newest_and_follows_it(
    run_bus: RunBus, bus: Bus, bus_dir: Path
) -> None:
    """M-95: the newest changes of state, oldest of them first."""
    for n in range(4):
        bus.publish("state_change", n, from_agent="a")
        bus.publish("noise", from_agent="a")
    shown = run_bus("tail", "-n", "2", "--type", "state_*", "--json")
    assert (shown.code, "not a type pattern" in shown.err) == (2, True)
    shown = run_bus("tail", "-n", "2", "--type", "state_change", "--json")
    assert [json.loads(line)["payload"] for line in shown.out.splitlines()] == [2, 3]
