"""Two clones, each with a bus: what one commits the other gets, once. Real git throughout."""

import json
import random
from pathlib import Path

import pytest

from ackbus import Bus, Exporter

from ..conftest import wait_until
from .clones import Clone, assert_file_is_the_logs_own, assert_same_sets
from .conftest import StartBus, assert_error

pytestmark = pytest.mark.slow  # starts many processes

Clones = tuple[Clone, Clone]


def is_exporting(clone: Clone) -> bool:
    """Whether a process holds the lock of exporters, by what the kernel says."""
    inode = (clone.bus_dir / "export.lock").stat().st_ino
    locks = Path("/proc/locks").read_text().splitlines()
    return any("FLOCK" in line and f":{inode} " in line for line in locks)


def test_two_clones_merge_to_the_same_set(two_clones: Clones) -> None:
    """Pitfalls 6, 18, 19; issue 4, item 3: concurrent commits, merge, import, and back again."""
    first, second = two_clones
    first.publish("from the first", agent="ann")
    first.commit()
    second.publish("from the second", agent="bea")
    second.publish("large " + "x" * 5000, agent="bea")
    second.commit()
    first.push()
    second.pull()
    assert len(second.git("rev-list", "--merges", "HEAD").split()) == 1
    assert len(second.ids_in_log()) == 6
    second.push()
    own = first.ids_in_log()
    first.pull()
    assert_same_sets(first, second)
    # Rows of a log never move: what came from elsewhere has new places at the end.
    assert first.ids_in_log()[:4] == own
    assert first.ids_in_log() != second.ids_in_log()
    assert first.git("rev-parse", "HEAD") == second.git("rev-parse", "HEAD")
    large = first.bus("read", "--agent", "bea", "--json").splitlines()[-1]
    assert json.loads(large)["payload"] == "large " + "x" * 5000
    second.pull()  # a second time: there is nothing left to say
    assert second.nothing_to_commit()


@pytest.mark.slow
def test_many_rounds_converge_with_files_cut_at_other_places(two_clones: Clones) -> None:
    """Pitfall 19: merges and rebases in turn; one bus cuts its file, the other does not."""
    chance = random.Random(4)
    first, second = two_clones
    with Bus.open(first.bus_dir) as bus:
        Exporter(bus).rotate(4096)
    for turn in range(2):
        for clone in two_clones:
            clone.publish_all("y" * chance.randrange(900) for _ in range(chance.randrange(6, 12)))
            clone.commit(f"turn {turn}")
        second.pull(*(["--rebase"] if turn % 2 else []))
        second.push()
        first.pull(*(["--rebase"] if turn % 2 == 0 else []))
        first.push()
    second.pull()
    second.push()
    first.pull()
    assert len(list(first.bus_dir.glob("bus-*.jsonl"))) > 1
    assert_same_sets(first, second)


def test_the_same_message_at_two_times_settles(two_clones: Clones) -> None:
    """Pitfall 18: both published one id; the times differ, and neither clone corrects the other."""
    first, second = two_clones
    for clone in two_clones:
        clone.publish("built", "--id", "build-1")
        clone.commit()
    first.push()
    second.pull()
    second.push()
    first.pull()
    assert first.ids_in_git().count("build-1") == 1
    assert first.in_git() == second.in_git()
    assert first.nothing_to_commit()
    assert second.nothing_to_commit()


@pytest.mark.parametrize("chosen", ["this", "that"])
def test_one_id_with_two_contents_is_a_conflict(chosen: str, two_clones: Clones) -> None:
    """Pitfall 17: both lines stand between markers; no import takes them; one is chosen by hand."""
    first, second = two_clones
    first.publish("this", "--id", "build-1")
    second.publish("that", "--id", "build-1")
    first.commit()
    second.commit()
    first.push()
    pulled = second.try_git("pull", "--no-rebase", "origin", "main")
    assert pulled.code != 0
    assert "message 'build-1' has another content on each side" in pulled.err
    assert "stop 'bus export --follow'" in pulled.err  # it would put its own line back
    before = second.jsonl.read_bytes(), second.ids_in_log()
    assert_error(second.try_bus("import"), 3, "conflict marker", "line 4", "keep one of the two")
    for options in ((), ("--rebuild",)):
        refused = second.try_bus("export", *options)
        assert_error(refused, 3, "line 4", "is a conflict marker", "keep one of the two")
    for command in ("doctor", "doctor --full"):
        told = second.try_bus(*command.split())
        assert (told.code, "conflict marker" in told.out) == (1, True)
    refused = second.try_git("add", ".worker-state/bus.jsonl")
    assert "line 4 of .worker-state/bus.jsonl is a conflict marker" in refused.err
    assert (second.jsonl.read_bytes(), second.ids_in_log()) == before
    lines = before[0].decode().splitlines(keepends=True)
    assert [line[:7] for line in lines[3:] if line[0] != "{"] == ["<<<<<<<", "=======", ">>>>>>>"]
    second.jsonl.write_text("".join(lines[:3] + lines[4:5] + lines[6:7]))
    refused = second.try_git("add", ".worker-state/bus.jsonl")
    assert "message 'build-1' has two contents" in refused.err
    second.jsonl.write_text("".join(lines[:3]))
    refused = second.try_git("add", ".worker-state/bus.jsonl")
    assert "message 'build-1' has two contents in git" in refused.err
    (kept,) = [line for line in lines if f'"{chosen}"' in line]
    second.jsonl.write_text("".join([*lines[:3], kept]))
    second.git("add", ".worker-state/bus.jsonl")
    second.git("commit", "-qm", "choose")
    assert [f"{line}\n" for line in second.in_git()] == [*lines[:3], kept]
    assert "marker" not in second.try_bus("import").err


def test_two_contents_that_git_holds_come_down_to_that_of_the_folder(repository: Clone) -> None:
    """ADR 33: a clone without drivers merged by union; the next `git add` settles which stays."""
    one, two = (
        f'{{"id":"one","ts":"2026-01-10T14:00:00.000Z","from":"a","type":"t","payload":{n}}}\n'
        for n in (1, 2)
    )
    repository.jsonl.write_text(one + two)
    repository.git("add", "-f", ".worker-state/bus.jsonl")
    repository.git("commit", "-qm", "union")
    repository.bus("setup", "git")
    assert "'one' is taken by seq 1, with another payload" in repository.try_bus("import").err
    repository.commit()
    assert [f"{line}\n" for line in repository.in_git()] == [one]


def test_a_clone_without_drivers_is_told_what_to_do(two_clones: Clones) -> None:
    """Bad input: conflict markers; the hint leads to the merge."""
    first, second = two_clones
    second.bus("setup", "git", "--remove")
    second.git("checkout", "-q", "--", ".worker-state")
    second.export()
    first.publish("from the first")
    first.commit()
    first.push()
    second.publish("from the second")
    second.commit()
    assert '"seq":' in second.in_git()[-1]
    assert second.try_git("pull", "-q", "--no-rebase", "origin", "main").code != 0
    told = second.try_bus("import")
    assert_error(told, 3, "conflict marker", "'bus setup git'", "git checkout --merge")
    assert len(second.ids_in_log()) == 4
    second.bus("setup", "git")
    second.git("checkout", "--merge", "--", ".worker-state/bus.jsonl")
    second.bus("import")
    second.commit("merge")
    second.push()
    first.pull()
    assert_same_sets(first, second)


def test_a_message_that_can_not_be_imported_stays_in_git(two_clones: Clones) -> None:
    """Its blob was not committed: the bus lacks it and says so, and does not take it out of git."""
    first, second = two_clones
    id = first.publish("large " + "x" * 5000)
    first.export()
    first.git("add", ".worker-state/bus.jsonl")
    first.git("commit", "-qm", "without its blob")
    first.push()
    second.git("pull", "-q", "origin", "main")
    imported = second.try_bus("import")
    assert (imported.code, imported.out) == (3, "stored 0, duplicates 3, skipped 1\n")
    assert "no blob 'sha256-" in imported.err
    assert_error(second.try_bus("export"), 3, id, "is not in this bus")
    second.jsonl.unlink()  # it is in git, so nothing is lost
    second.publish("more")
    second.commit()
    assert id in second.ids_in_git()
    assert len(second.in_git()) == 5


def test_an_exporter_waits_for_the_import(two_clones: Clones, start_bus: StartBus) -> None:
    """Pitfall 18: what git put there stays until the log has it; then the file is the bus's own."""
    second, first = two_clones  # start_bus runs where the first clone is
    first.publish("from elsewhere")
    first.commit()
    first.push()
    exporter = start_bus("export", "--follow")
    assert exporter.stderr is not None
    # A start that meets git between removing the file and making it would make it first.
    wait_until(lambda: is_exporting(second))
    second.bus("export")  # returns when the other one has written what there is
    second.git("pull", "-q", "origin", "main")
    assert b"bus.jsonl is behind: " in exporter.stderr.readline()
    assert '"seq":' not in second.jsonl.read_text()
    second.bus("import")
    wait_until(lambda: '"seq":4' in second.jsonl.read_text())
    assert_file_is_the_logs_own(second)


def test_an_exporter_waits_for_a_conflict_to_be_resolved(
    two_clones: Clones, start_bus: StartBus
) -> None:
    """Pitfall 11: markers end no follower, and a plain export beside it says why it can't."""
    first, _ = two_clones
    exporter = start_bus("export", "--follow")
    assert exporter.stderr is not None
    first.publish("by the follower")
    wait_until(lambda: '"seq":4' in first.jsonl.read_text())
    whole = first.jsonl.read_text()
    first.jsonl.write_text("<<<<<<< ours\n" + whole)
    assert_error(first.try_bus("export"), 3, "line 1", "is a conflict marker")
    first.publish("meanwhile")
    assert b"line 1" in exporter.stderr.readline()
    first.publish("also")
    assert_error(first.try_bus("export"), 3, "line 1", "is a conflict marker")
    assert exporter.poll() is None
    first.jsonl.write_text(whole)
    wait_until(lambda: '"seq":6' in first.jsonl.read_text())
    assert_file_is_the_logs_own(first)


def test_a_checkout_of_an_older_commit_loses_nothing(two_clones: Clones) -> None:
    """The database is the truth: the file is rewritten, and git's set only grows."""
    first, _ = two_clones
    first.publish("newer")
    first.commit()
    first.git("checkout", "-q", "HEAD~1")
    assert len(first.jsonl.read_text().splitlines()) == 3
    first.export()
    assert_file_is_the_logs_own(first)
    first.git("checkout", "-q", "--", ".worker-state")
    first.git("checkout", "-q", "main")
    first.export()
    assert first.nothing_to_commit()


def test_what_a_revert_takes_out_of_git_a_bus_puts_back(two_clones: Clones) -> None:
    """The commit lacks the message, as it should; no bus does, and the next commit has it again."""
    first, _ = two_clones
    id = first.publish("newer")
    first.commit()
    first.git("revert", "--no-edit", "HEAD")
    assert id not in first.ids_in_git()
    first.commit("again")
    assert id in first.ids_in_git()
    assert id in first.ids_in_log()


def test_git_never_sees_half_a_line(repository: Clone) -> None:
    """Pitfall 22: `git add` while the exporter writes."""
    repository.bus("setup", "git")
    repository.publish("whole")
    repository.export()
    with repository.jsonl.open("ab") as file:
        file.write(b'{"seq":2,"id":"half","ts":"2026-')
    repository.git("add", "-A")
    repository.git("commit", "-qm", "one")
    assert len(repository.in_git()) == 1


def test_filters_work_from_any_folder(repository: Clone) -> None:
    """Git runs them at the top; a project may have its bus further down, and names with blanks."""
    deep = repository.path / "a project" / ".worker-state"
    repository.bus("init", "--dir", str(deep))
    repository.bus("setup", "git", "--dir", str(deep))
    repository.publish("x", "--dir", str(deep))
    repository.bus("export", "--dir", str(deep))
    for count in (1, 2):
        repository.git("-C", "a project", "add", ".worker-state")
        repository.git("commit", "-qm", str(count))
        lines = repository.git("show", "HEAD:a project/.worker-state/bus.jsonl").splitlines()
        assert [next(iter(json.loads(line))) for line in lines] == ["id"] * count
        repository.publish("y", "--dir", str(deep))
        repository.bus("export", "--dir", str(deep))


@pytest.mark.parametrize(
    "arguments", [["git-clean"], ["git-merge", "a"], ["git-textconv", "a", "b"]]
)
def test_what_git_runs_is_not_for_people(arguments: list[str], repository: Clone) -> None:
    assert_error(repository.try_bus(*arguments), 2, "is for git to run")


def test_setup_needs_files_and_a_repository(tmp_path: Path, repository: Clone) -> None:
    """Bad input: no repository, a bare one, no git: one line, a code, nothing changed."""
    apart = tmp_path / "apart"
    repository.bus("init", "--dir", str(apart))
    assert_error(
        repository.try_bus("setup", "git", "--dir", str(apart)), 1, "is in no git repository"
    )
    bare = tmp_path / "bare.git"
    repository.git("init", "-q", "--bare", str(bare))
    inside = bare / "state"
    repository.bus("init", "--dir", str(inside))
    before = sorted(path.name for path in inside.iterdir())
    assert_error(repository.try_bus("setup", "git", "--dir", str(inside)), 1, "bare repository")
    assert sorted(path.name for path in inside.iterdir()) == before
    alone = Clone(repository.path, repository.run_bus, {**repository.env, "PATH": "/nowhere"})
    assert_error(alone.try_bus("setup", "git"), 1, "git is not installed")
