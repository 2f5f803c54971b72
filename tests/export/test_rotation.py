"""Rotation: bus.jsonl in parts, cut where the content says, whole after anything."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Exporter
from ackbus.errors import ExporterRunning, InvalidInput, Refused

from ..conftest import wait_until
from ..sizes import sampled

LIMIT = 4096


def publish_some(bus: Bus, count: int) -> None:
    bus.publish_many(
        [Draft("note", {"n": n, "text": "x" * 100}, from_agent="a") for n in range(count)]
    )


def files_of(directory: Path) -> dict[str, bytes]:
    """All that the exporter keeps, by name."""
    return {path.name: path.read_bytes() for path in directory.glob("bus*.json*")}


def lines_of(directory: Path) -> list[bytes]:
    """The lines of all parts and of bus.jsonl, in order."""
    names = [*sorted(path.name for path in directory.glob("bus-*.jsonl")), "bus.jsonl"]
    return [line for name in names for line in (directory / name).read_bytes().splitlines()]


def log_lines(bus: Bus) -> list[bytes]:
    return [message.to_line() for message in bus.read()]


def test_rotation_is_off_until_it_is_asked_for(bus: Bus, bus_dir: Path) -> None:
    publish_some(bus, 200)
    Exporter(bus).export_once()
    assert list(files_of(bus_dir)) == ["bus.jsonl"]


def test_parts_and_the_rest_hold_every_line_once_in_order(bus: Bus, bus_dir: Path) -> None:
    """M-79: no file is larger than asked for; the name that people follow has the newest."""
    publish_some(bus, 100)
    Exporter(bus).rotate(LIMIT)
    publish_some(bus, 100)
    Exporter(bus).export_once()
    assert lines_of(bus_dir) == log_lines(bus)
    parts = sorted(bus_dir.glob("bus-*.jsonl"))
    assert len(parts) > 5
    assert parts[0].name == "bus-000001.jsonl"
    sizes = [path.stat().st_size for path in [*parts, bus_dir / "bus.jsonl"]]
    assert max(sizes) <= LIMIT
    assert min(sizes[:-1]) > LIMIT - 300  # as full as whole lines allow
    assert {path.stat().st_mode & 0o777 for path in bus_dir.glob("bus*.json*")} == {0o600}


def test_index_says_what_is_where(bus: Bus, bus_dir: Path) -> None:
    publish_some(bus, 100)
    Exporter(bus).rotate(LIMIT)
    index = json.loads((bus_dir / "bus.index.json").read_bytes())
    assert index["rotate_bytes"] == LIMIT
    assert [part["name"] for part in index["parts"]] == sorted(
        path.name for path in bus_dir.glob("bus-*.jsonl")
    )
    for part in index["parts"]:
        data = (bus_dir / part["name"]).read_bytes()
        seqs = [json.loads(line)["seq"] for line in data.splitlines()]
        assert part == {
            "name": part["name"],
            "first_seq": seqs[0],
            "last_seq": seqs[-1],
            "messages": len(seqs),
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }


def test_cuts_depend_on_the_content_alone(bus: Bus, bus_dir: Path) -> None:
    """M-86: one by one, in bulk, or all again after deleting everything: the same bytes."""
    Exporter(bus).rotate(LIMIT)
    for count in (1, 2, 30, 1, 66):
        publish_some(bus, count)
        Exporter(bus).export_once()
    before = files_of(bus_dir)
    for path in bus_dir.glob("bus*.json*"):
        path.unlink()
    assert Exporter(bus).export_once() == 100
    assert files_of(bus_dir) == before
    assert Exporter(bus).rebuild() == 100
    assert files_of(bus_dir) == before


@pytest.mark.parametrize(
    "lost", ["bus.jsonl", "bus.index.json", "bus-000001.jsonl", "bus-000003.jsonl"]
)
def test_each_lost_file_comes_back_with_the_same_bytes(lost: str, bus: Bus, bus_dir: Path) -> None:
    """M-86, M-78."""
    publish_some(bus, 100)
    Exporter(bus).rotate(LIMIT)
    before = files_of(bus_dir)
    (bus_dir / lost).unlink()
    Exporter(bus).export_once()
    assert files_of(bus_dir) == before
    assert Exporter(bus).position == 100


def test_nothing_new_leaves_every_file_untouched(bus: Bus, bus_dir: Path) -> None:
    """M-81."""
    publish_some(bus, 100)
    Exporter(bus).rotate(LIMIT)

    def times() -> dict[str, tuple[int, int]]:
        stats = {path.name: path.stat() for path in bus_dir.glob("bus*.json*")}
        return {name: (stat.st_mtime_ns, stat.st_ino) for name, stat in stats.items()}

    before = times()
    assert Exporter(bus).export_once() == 0
    assert times() == before


def test_every_exporter_follows_the_setting(bus: Bus, bus_dir: Path) -> None:
    """It is kept in the bus: another process, which was told nothing, cuts in the same places."""
    Exporter(bus).rotate(LIMIT)
    publish_some(bus, 100)
    script = "import sys, ackbus; ackbus.Exporter(ackbus.Bus.open(sys.argv[1])).export_once()"
    subprocess.run([sys.executable, "-c", script, bus_dir], check=True)
    assert len(files_of(bus_dir)) > 4
    assert Exporter(bus).export_once() == 0
    assert lines_of(bus_dir) == log_lines(bus)


def test_rotation_ends_and_changes_as_it_began(bus: Bus, bus_dir: Path) -> None:
    publish_some(bus, 100)
    Exporter(bus).export_once()
    whole = files_of(bus_dir)
    Exporter(bus).rotate(LIMIT)
    small = files_of(bus_dir)
    Exporter(bus).rotate(3 * LIMIT)
    assert len(whole) < len(files_of(bus_dir)) < len(small)
    assert lines_of(bus_dir) == log_lines(bus)
    Exporter(bus).rotate(0)
    assert files_of(bus_dir) == whole


def test_a_size_for_less_than_a_few_lines_is_refused(bus: Bus, bus_dir: Path) -> None:
    with pytest.raises(InvalidInput, match="4,096 bytes at least"):
        Exporter(bus).rotate(100)
    least = "from ackbus.export.jsonl.exporter import MIN_ROTATE_BYTES as least; print(least)"
    said = subprocess.run([sys.executable, "-P", "-c", least], check=True, capture_output=True)
    assert said.stdout == b"100000\n"  # issue 31, item 18; tests are allowed smaller ones
    with Exporter(bus), pytest.raises(ExporterRunning):
        Exporter(bus).rotate(LIMIT)
    publish_some(bus, 100)
    Exporter(bus).export_once()
    assert list(files_of(bus_dir)) == ["bus.jsonl"]


def test_a_line_larger_than_the_limit_has_a_file_of_its_own(bus: Bus, bus_dir: Path) -> None:
    Exporter(bus).rotate(LIMIT)
    for text in ("x", "y" * 3900, "z"):
        headers = {"why": "w" * 3000}
        bus.publish("note", text, from_agent="a", headers=headers)
    Exporter(bus).export_once()
    sizes = [path.stat().st_size for path in sorted(bus_dir.glob("bus-*.jsonl"))]
    assert len(sizes) == 2
    assert sizes[1] > LIMIT
    assert lines_of(bus_dir) == log_lines(bus)


def test_tail_follows_the_name_over_a_cut(bus: Bus, bus_dir: Path) -> None:
    """M-83: `tail -F` shows every line once, though the file under the name changes."""
    Exporter(bus).rotate(LIMIT)
    tail = subprocess.Popen(
        ["tail", "-s", "0.02", "-n", "+1", "-F", bus.layout.jsonl],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert tail.stdout is not None
    try:
        shown: list[bytes] = []
        for _ in range(4):  # each brings about one cut; tail may skip a file that came and went
            publish_some(bus, 15)
            Exporter(bus).export_once()
            while not shown or json.loads(shown[-1])["seq"] < bus.log.newest_seq():
                shown.append(tail.stdout.readline().rstrip(b"\n"))
    finally:
        tail.kill()
        tail.communicate()
    assert shown == log_lines(bus)


#: Kills the process at its n-th call that changes a file, just before or just after it.
KILLED_AT_A_STEP = """
import os, signal, sys
from ackbus import Bus, Exporter
from ackbus.export.jsonl import exporter

exporter.MIN_ROTATE_BYTES = 4096
directory, act, step, after = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "after"
left = step
bus = Bus.open(directory)
limit = 0 if act == "off" else 8192

def counted(real):
    def call(*args, **kwargs):
        global left
        left -= 1
        if left == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **kwargs)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call

for name in ("write", "rename", "replace", "unlink", "fsync", "ftruncate"):
    setattr(os, name, counted(getattr(os, name)))
if act == "export":
    Exporter(bus).export_once()
else:
    Exporter(bus).rotate(limit)
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "after"), sampled(product(["export", "limit", "off"], ["before", "after"]), every=3)
)
def test_killed_at_any_step_leaves_every_seq_once(
    act: str, after: str, bus: Bus, bus_dir: Path
) -> None:
    """M-80, M-85, X-40: kill -9 around each system call; the next export makes the files whole.

    While exporting, what is on disk has no line twice at any moment, also before that.
    """
    Exporter(bus).rotate(LIMIT)
    step = 0
    code = -signal.SIGKILL
    while code == -signal.SIGKILL:
        step += 1
        if act == "export" or step == 1:
            publish_some(bus, 60)
        if act != "export":
            Exporter(bus).rotate(LIMIT)
        command = [sys.executable, "-c", KILLED_AT_A_STEP, str(bus_dir), act, str(step), after]
        code = subprocess.run(command, check=False).returncode
        if act == "export":
            seqs = [json.loads(line)["seq"] for line in lines_if_there(bus_dir)]
            assert seqs == list(range(1, len(seqs) + 1))
        Exporter(bus).export_once()
        assert lines_of(bus_dir) == log_lines(bus)
        assert_as_if_made_at_once(bus, bus_dir)
    assert code == 0
    assert step > 5


def lines_if_there(directory: Path) -> list[bytes]:
    """The whole lines of all files; between a cut and the next line there is no bus.jsonl."""
    names = [*sorted(path.name for path in directory.glob("bus-*.jsonl")), "bus.jsonl"]
    data = b"".join(
        (directory / name).read_bytes() for name in names if (directory / name).exists()
    )
    return data[: data.rfind(b"\n") + 1].splitlines()


def assert_as_if_made_at_once(bus: Bus, bus_dir: Path) -> None:
    before = files_of(bus_dir)
    Exporter(bus).rebuild()
    assert files_of(bus_dir) == before


def test_followers_cut_too(bus: Bus, bus_dir: Path) -> None:
    """M-77."""
    Exporter(bus).rotate(LIMIT)
    with Exporter(bus):
        publish_some(bus, 100)
        wait_until(lambda: lines_if_there(bus_dir) == log_lines(bus))


def test_parts_that_somebody_changed_are_written_anew(bus: Bus, bus_dir: Path) -> None:
    """Pitfall 18: only if the log has all that is in them."""
    publish_some(bus, 100)
    Exporter(bus).rotate(LIMIT)
    before = files_of(bus_dir)
    part = bus_dir / "bus-000002.jsonl"
    part.write_bytes(part.read_bytes()[:400].rpartition(b"\n")[0] + b"\n")
    assert Exporter(bus).export_once() == 100
    assert files_of(bus_dir) == before
    with part.open("ab") as file:
        file.write(b'{"id":"foreign","ts":"2026-01-10T14:00:00.000Z","from":"x","type":"y"}\n')
    changed = files_of(bus_dir)
    with pytest.raises(Refused, match="foreign"):
        Exporter(bus).export_once()
    assert files_of(bus_dir) == changed


@pytest.mark.parametrize("name", ["bus-20261121.jsonl", "bus-202611.jsonl", "bus-notes.jsonl"])
@pytest.mark.parametrize("limit", [0, LIMIT])
def test_a_copy_that_somebody_keeps_is_left_alone(
    name: str, limit: int, bus: Bus, bus_dir: Path
) -> None:
    """Promise 8: it is no part, whatever it is called: never removed, read, or in the way."""
    publish_some(bus, 100)
    Exporter(bus).rotate(limit)
    copy = bus_dir / name
    foreign = b'{"id":"kept","ts":"2026-01-10T14:00:00.000Z","from":"x","type":"y"}\n'
    copy.write_bytes(foreign)
    assert Exporter(bus).export_once() == 0
    assert Exporter(bus).rebuild() == 100
    Exporter(bus).rotate(2 * LIMIT)
    Exporter(bus).rotate(0)
    assert copy.read_bytes() == foreign


FOREIGN = b'{"id":"kept","ts":"2026-01-10T14:00:00.000Z","from":"x","type":"y"}\n'


@pytest.mark.parametrize("number", [3, 7])
def test_file_in_the_place_of_a_part_is_not_overwritten(
    number: int, bus: Bus, bus_dir: Path
) -> None:
    """Promise 8: behind a gap it is no part, so nobody has looked into it."""
    publish_some(bus, 60)
    mine = bus_dir / f"bus-{number:06}.jsonl"
    mine.write_bytes(FOREIGN)
    if number == 7:  # some parts fit in before it
        Exporter(bus).rotate(LIMIT)
        publish_some(bus, 100)
    with pytest.raises(Refused, match=rf"^{mine} is not a part, .* move it away$"):
        Exporter(bus).rotate(LIMIT)
    assert mine.read_bytes() == FOREIGN
    assert not list(bus_dir.glob("*.new"))
    mine.rename(bus_dir / "kept")
    Exporter(bus).export_once()
    assert lines_of(bus_dir) == log_lines(bus)


def test_cut_overwrites_nothing(bus: Bus, bus_dir: Path) -> None:
    """Promise 8: the parts grow up to a file that somebody put there; all else is exported."""
    Exporter(bus).rotate(LIMIT)
    mine = bus_dir / "bus-000003.jsonl"
    mine.write_bytes(FOREIGN)
    publish_some(bus, 100)
    with pytest.raises(Refused, match="move it away"):
        Exporter(bus).export_once()
    assert mine.read_bytes() == FOREIGN
    mine.rename(bus_dir / "kept")
    Exporter(bus).export_once()
    assert lines_of(bus_dir) == log_lines(bus)
    assert_as_if_made_at_once(bus, bus_dir)


def test_file_after_the_last_part_is_looked_into(bus: Bus, bus_dir: Path) -> None:
    """Promise 8: it is no part that was cut before a crash where bus.jsonl is as it was left."""
    publish_some(bus, 60)
    Exporter(bus).rotate(LIMIT)
    mine = bus_dir / f"bus-{len(list(bus_dir.glob('bus-*.jsonl'))) + 1:06}.jsonl"
    mine.write_bytes(FOREIGN.replace(b"{", b'{"seq":61,'))
    for export in (Exporter.export_once, Exporter.rebuild, lambda each: each.rotate(2 * LIMIT)):
        with pytest.raises(Refused, match="has message kept on line 1"):
            export(Exporter(bus))
    assert mine.exists()


def test_lost_part_and_index_leave_the_parts_behind_them_alone(bus: Bus, bus_dir: Path) -> None:
    """Promise 8: nothing tells any more that they are parts."""
    publish_some(bus, 100)
    Exporter(bus).rotate(LIMIT)
    for name in ("bus-000002.jsonl", "bus.index.json"):
        (bus_dir / name).unlink()
    with (bus_dir / "bus-000003.jsonl").open("ab") as file:
        file.write(FOREIGN)
    for export in (Exporter.export_once, Exporter.rebuild):
        with pytest.raises(Refused, match=r"bus-000003\.jsonl is not a part"):
            export(Exporter(bus))
    assert (bus_dir / "bus-000003.jsonl").read_bytes().endswith(FOREIGN)


def test_parts_behind_a_lost_one_go_with_the_others(bus: Bus, bus_dir: Path) -> None:
    """Else they would be in the way of the next ones."""
    publish_some(bus, 100)
    Exporter(bus).rotate(LIMIT)
    (bus_dir / "bus-000002.jsonl").unlink()
    Exporter(bus).rotate(4 * LIMIT)
    assert lines_of(bus_dir) == log_lines(bus)


def test_parts_behind_a_lost_one_are_still_looked_into(bus: Bus, bus_dir: Path) -> None:
    """Pitfall 25: the index tells how many there were."""
    publish_some(bus, 100)
    Exporter(bus).rotate(LIMIT)
    (bus_dir / "bus-000002.jsonl").unlink()
    with (bus_dir / "bus-000004.jsonl").open("ab") as file:
        file.write(b'{"id":"foreign","ts":"2026-01-10T14:00:00.000Z","from":"x","type":"y"}\n')
    with pytest.raises(Refused, match="foreign"):
        Exporter(bus).export_once()


def test_an_older_copy_put_back_beside_its_parts_doubles_nothing(bus: Bus, bus_dir: Path) -> None:
    Exporter(bus).rotate(LIMIT)
    publish_some(bus, 10)
    Exporter(bus).export_once()
    older = (bus_dir / "bus.jsonl").read_bytes()
    publish_some(bus, 50)
    Exporter(bus).export_once()
    (bus_dir / "bus.jsonl").write_bytes(older)
    Exporter(bus).export_once()
    assert lines_of(bus_dir) == log_lines(bus)


@pytest.mark.parametrize(
    "next_one",
    [Exporter.export_once, Exporter.rebuild, lambda exporter: exporter.rotate(LIMIT)],
)
def test_a_killed_rebuild_leaves_nothing_lying_about(
    next_one: Callable[[Exporter], int], bus: Bus, bus_dir: Path
) -> None:
    publish_some(bus, 100)
    Exporter(bus).export_once()
    for name in ("bus-000099.jsonl.new", "bus.jsonl.new", "bus.index.json.new"):
        (bus_dir / name).write_bytes(b"half a l")
    next_one(Exporter(bus))
    assert not [name for name in os.listdir(bus_dir) if name.endswith(".new")]
