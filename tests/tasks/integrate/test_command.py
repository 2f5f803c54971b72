"""`bus integrate` as a command: what it prints, and its exit codes; and dead completions."""

import json
import os

import pytest

from ackbus import Draft, Queue
from ackbus.errors import Refused
from ackbus.tasks.records.task import Task

from ...cli.git import Git
from ...conftest import RunBus
from ..conftest import enter, new_task
from .conftest import Yard, lines


def records(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def integrate(run_bus: RunBus, yard: Yard) -> RunBus:
    def run(*args: str) -> object:
        where = ("--dir", yard.bus.directory, "--repo", str(yard.git.path))
        return run_bus("integrate", *where, *args, env=dict(os.environ))

    return run  # type: ignore[return-value]


@pytest.mark.slow
def test_it_prints_one_object_an_entry(yard: Yard, integrate: RunBus) -> None:
    yard.task("one", a=lines(l5="five"))
    yard.task("two", a=lines(l5="FIVE"))
    done = integrate("--once", "--json", "--check", "true")
    first, second = records(done.out)
    wanted = {"task": "one", "outcome": "landed", "commit": yard.main, "files": []}
    assert first | wanted == first
    assert second | {"task": "two", "outcome": "conflict", "commit": None} == second
    assert (second["files"], second["others"], done.code) == (["a"], {"a": "one"}, 3)


def test_branches_without_tasks(yard: Yard, integrate: RunBus) -> None:
    head = yard.branch("topic", a=lines(l5="five"))
    done = integrate("--branch", "topic", "--into", "main")
    assert (done.code, done.out) == (0, f"topic: landed  {yard.main[:12]}\n")
    assert "warning: there are no checks, so what merges lands untested" in done.err
    again = integrate("--branch", "topic")
    assert (again.code, "has landed, as" in again.err) == (3, True)
    assert yard.git.ok("log", "-1", "--format=%P", "main").endswith(head)


def test_dry_run_says_what_would_be(yard: Yard, integrate: RunBus) -> None:
    """U-60: it claims nothing."""
    assert integrate("--dry-run").code == 4
    yard.task("one", a=lines(l5="five"))
    before = yard.main
    done = integrate("--dry-run")
    assert done.out.startswith("one: would land  it merges; nothing was checked")
    assert (done.code, yard.main) == (0, before)


@pytest.mark.slow
def test_nothing_to_do_and_what_is_wrong_are_one_line(yard: Yard, integrate: RunBus) -> None:
    assert integrate("--once", "--check", "true").code == 4
    cases = {
        ("--into", "gone", "--once"): "has no branch 'gone'; make it, or name another",
        ("--into=-x", "--once"): "can be no name of a branch",
        ("--branch", "gone"): "has no branch 'gone'",
        ("--branch", "-x"): "can be no name of a branch",
        ("--strategy", "octopus", "--once"): "strategy must be merge, cherry-pick, ff",
        ("--batch", "0", "--once"): "a batch has 1 to 100 entries",
        ("--check", " ", "--once"): "a check is empty",
        ("--push", "--remote=-x", "--once"): "can be no remote",
        ("--dry-run", "--branch", "x"): "give one",
    }
    for args, words in cases.items():
        ended = integrate(*args)
        said = [line for line in ended.err.splitlines() if "no checks" not in line]
        assert (ended.code in (1, 2, 3), len(said)) == (True, 1), (args, ended)
        assert words in said[0], args


def test_repository_without_an_identity_says_how_to_give_one(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.task("one", a=lines(l5="five"))
    yard.git.ok("config", "user.useConfigOnly", "true")
    yard.git.ok("config", "--unset", "user.email")
    for name in ("GIT_COMMITTER_EMAIL", "GIT_AUTHOR_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Refused, match=r"git config user\.email"):
        yard.integrate()
    assert yard.tasks.get("one").state == "APPROVED"


def test_bare_repository_with_unicode_and_spaces(yard: Yard, run_bus: RunBus) -> None:
    head = yard.branch("wörk/ä b".replace(" ", "-"), a=lines(l5="five"))
    bare = yard.git.path.parent / "bäre main"
    yard.git.ok("clone", "--quiet", "--bare", yard.git.path, bare)
    repository = Git(bare, yard.git.env)
    repository.ok("branch", "--force", "wörk/ä-b", head)
    done = run_bus(
        *("integrate", "--dir", yard.bus.directory, "--repo", str(bare)),
        *("--branch", "wörk/ä-b", "--check", "grep five a"),
        env=dict(os.environ),
    )
    assert done.code == 0, done
    assert "five" in repository.ok("show", "main:a")


@pytest.mark.slow
def test_dead_completions_are_listed_shown_requeued_and_dropped(
    yard: Yard, run_bus: RunBus
) -> None:
    """Q-23: the dead letters of completions: list, show, requeue, purge."""
    yard.task("one", a=lines(l5="five"))
    yard.task("two", b="bb\n")
    queue = Queue.open(yard.bus, "completions")
    queue.fill()
    seqs = [message.seq for message in yard.said("task.completion")]
    queue.jobs.bury("the machine was lost too often")
    where = ("--dir", yard.bus.directory)
    listed = run_bus("dead", "list", "--queue", "completions", *where, "--json")
    assert sorted(record["seq"] for record in records(listed.out)) == seqs
    assert "too often" in run_bus("dead", "show", str(seqs[0]), *where).out
    assert run_bus("dead", "requeue", str(seqs[0]), *where).code == 0
    assert run_bus("dead", "drop", str(seqs[1]), *where).code == 0
    assert yard.integrate() == {"one": "landed"}
    assert run_bus("dead", "list", "--queue", "completions", *where).code == 4


def test_completion_in_pushpals_form_is_integrated(yard: Yard) -> None:
    """U-53: a commit and a branch, without a task of ours."""
    head = yard.branch("agent/w/job-1", a=lines(l5="five"))
    payload = {"commitSha": head, "branch": "agent/w/job-1", "message": "Mend line five"}
    draft = Draft("task.completion", payload, from_agent="w", to_agent="tasks")
    enter(yard.bus, draft)
    assert yard.integrate() == {"agent/w/job-1": "landed"}
    assert yard.subjects()[0] == "Mend line five"


def test_once_says_what_waits_for_whom(yard: Yard, integrate: RunBus) -> None:
    def new(name: str, **changed: object) -> Task:
        fields = {"worker": "ann", "repository": yard.place.common_dir, "base": yard.main}
        return yard.tasks.assign(new_task(name, **{**fields, **changed}), agent="lead")

    new("begun")
    new("later", depends_on=("begun",))
    asked = new("asked")
    yard.tasks.start("asked", agent="ann", token=asked.token)
    yard.tasks.block("asked", agent="ann", token=asked.token, question="why?")
    ready = new("ready", reviewer="eve")
    yard.tasks.start("ready", agent="ann", token=ready.token)
    yard.tasks.done("ready", agent="ann", token=ready.token, head=yard.main)
    new("other", repository="/elsewhere/.git")
    err = integrate("--once", "--check", "true").err
    notes = [line.partition(" --dir ")[0] for line in err.splitlines() if "waits for" in line]
    assert sorted(notes) == [
        "bus: task 'asked' waits for an answer by 'lead': 'bus task show asked",
        "bus: task 'begun' waits for 'ann' to begin: 'bus task show begun",
        "bus: task 'later' waits for begun to land: 'bus task show begun",
        "bus: task 'ready' waits for the review by 'eve': 'bus task diff ready",
    ]
