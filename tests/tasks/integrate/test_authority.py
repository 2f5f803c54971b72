"""A message is no authority: of the types that are acted upon, by every way into the file."""

import io
import json
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Draft, Queue
from ackbus.automation.jobs.submission import JobRequest, Submission, Submitted
from ackbus.errors import AckbusError, NotActedUponWarning, WrongJobState
from ackbus.schema.message.patterns import ACTED_TYPES, UNPROVEN, acted_type
from ackbus.subscribers.queues.queue_set import QueueSet
from ackbus.tasks.control.requests import Completions
from ackbus.tasks.finish import Cleaner, finish_task
from ackbus.tasks.spawn import Spawner, TaskSpec
from ackbus.tasks.steps.changes import Changes
from ackbus.tasks.steps.messages import STATE_CHANGE, integrators_of

from ...conftest import RunBus
from ...looking.surroundings import state_of
from ...programs import connect, raw_sql, tamper
from ...sizes import case, sampled
from ..conftest import enter
from .conftest import Yard, lines

#: A message of each type that is acted upon: the one that would do the most.
TYPES = (
    *("task.request", "task.job", "task.completion"),
    *("plugin.feed.poll", "plugin.event", "schedule.feed.poll"),
)


def of_type(yard: Yard, type: str) -> Draft:
    """The message, by somebody without a right, as a step would write it."""
    payload: object = {"prompt": "x", "task": "t", "kind": "task.execute"}
    headers: dict[str, object] | None = None
    if type == "task.completion":
        repository = yard.place.common_dir
        payload = {
            "task": None,
            "repository": repository,
            "branch": "private",
            "head": yard.git.ok("rev-parse", "private"),
            "target": "main",
        }
        headers = {"for_worker": integrators_of(repository, "main")}
    if type == "plugin.event":
        headers = {"event_type": "feed.new"}
    to = "tasks" if type.startswith("task") else "automation"
    return Draft(type, payload, from_agent="mallory", to_agent=to, headers=headers)


def published(yard: Yard, draft: Draft, run_bus: RunBus) -> None:
    with pytest.warns(NotActedUponWarning, match="only published"):
        yard.bus.publish(
            draft.type,
            draft.payload,
            from_agent=draft.from_agent,
            to_agent=draft.to_agent,
            headers=draft.headers,
        )


def in_a_batch(yard: Yard, draft: Draft, run_bus: RunBus) -> None:
    with pytest.warns(NotActedUponWarning):
        yard.bus.publish_many([Draft("note", from_agent="mallory"), draft])


def by_raw_sql(yard: Yard, draft: Draft, run_bus: RunBus) -> None:
    payload, headers = json.dumps(draft.payload), json.dumps(draft.headers or {})
    raw_sql(
        Path(yard.bus.directory),
        "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, payload, headers) VALUES"
        f" ('raw', 1, 'mallory', '{draft.to_agent}', '{draft.type}', '{payload}', '{headers}')",
    )


def line_of(draft: Draft) -> bytes:
    record = {"id": "forged", "ts": "2026-01-01T00:00:00.000Z", "from": "mallory"}
    told = {"to": draft.to_agent, "type": draft.type, "payload": draft.payload}
    return json.dumps({**record, **told, "headers": draft.headers or {}}).encode() + b"\n"


def imported(yard: Yard, draft: Draft, run_bus: RunBus) -> None:
    with pytest.warns(NotActedUponWarning, match="lines: 1"):
        assert yard.bus.import_jsonl(io.BytesIO(line_of(draft))).stored == 1


def as_a_reply(yard: Yard, draft: Draft, run_bus: RunBus) -> None:
    """By a worker of another queue, in the transaction that ends its job."""
    queue = Queue.create(yard.bus, "work")
    yard.bus.publish("work", from_agent="lead")
    (claim,) = queue.claim("mallory")
    queue.complete(claim, draft)


def in_a_transaction_of_a_step(yard: Yard, draft: Draft, run_bus: RunBus) -> None:
    """Stored just before a step takes in what it published itself."""
    with yard.bus.transaction():
        yard.bus.log.append([draft])
        enter(yard.bus, Draft("note", from_agent="lead"))


def by_the_command(yard: Yard, draft: Draft, run_bus: RunBus) -> None:
    done = run_bus(
        *("publish", draft.type, "--from", "mallory", "--to", str(draft.to_agent)),
        *("--data", json.dumps(draft.payload), "--headers", json.dumps(draft.headers or {})),
        *("--dir", yard.bus.directory),
    )
    assert (done.code, "only published" in done.err) == (0, True), done


WAYS = [
    *(published, in_a_batch, by_raw_sql, imported, as_a_reply, in_a_transaction_of_a_step),
    by_the_command,
]


@pytest.mark.slow
@pytest.mark.parametrize(("type", "way"), sampled(product(TYPES, WAYS), every=4))
def test_a_message_that_anybody_wrote_moves_nothing(
    type: str,
    way: Callable[[Yard, Draft, RunBus], None],
    yard: Yard,
    run_bus: RunBus,
    tmp_path: Path,
) -> None:
    """No ref moves, no state changes, no program starts, whatever way it came into the file."""
    yard.branch("private", a=lines(l5="mine"))
    Changes(yard.bus).create_queues()
    Queue.create(yard.bus, "plugin.feed", "plugin.feed.*", addressed="automation", hides="all")
    for agent in ("tasks", "automation"):
        yard.bus.heartbeats.beat(agent, "idle")
    main = yard.main
    way(yard, of_type(yard, type), run_bus)
    assert [each.from_agent for each in yard.said(type)] == ["mallory"]
    marker = tmp_path / "started"
    where = {"cwd": str(yard.git.path), "env": {**os.environ, "BUS_DIR": yard.bus.directory}}
    program = ("sh", "-c", f"cat >/dev/null; touch '{marker}'")
    for role in (("plan",), ("work", "--worker", "w")):
        assert run_bus("task", *role, "--drain", "--", *program, **where).code == 0
    assert QueueSet(yard.bus, ["plugin.feed"]).claim("host", group="automation", limit=9) == []
    assert yard.integrate() == {}
    assert yard.integrate("true", strategy="cherry-pick") == {}
    assert not marker.exists()
    assert yard.main == main
    assert yard.tasks.list() == []
    states = {job.state for name in _QUEUES for job in Queue.open(yard.bus, name).jobs.list()}
    assert states <= {"cancelled"}


_QUEUES = ("requests", "jobs", "completions", "plugin.feed")


def test_what_no_step_published_is_never_tried_again(yard: Yard) -> None:
    """By hand neither: the note that nothing acted upon it stands."""
    Changes(yard.bus).create_queues()
    (sent,) = yard.bus.log.append([of_type(yard, "task.job")])
    queue = Queue.open(yard.bus, "jobs")
    (job,) = queue.jobs.list()
    assert (job.state, job.error) == ("cancelled", UNPROVEN)
    with pytest.raises(WrongJobState, match="can't be tried again: no step"):
        queue.jobs.retry(sent.seq)
    assert list(queue.dead_letters.find()) == []


def test_a_step_makes_jobs_of_its_own_messages_alone(yard: Yard) -> None:
    """A message that was forged before it, in the same page of the log, is no job."""
    Changes(yard.bus).create_queues()
    queue = Queue.create(
        yard.bus, "plugin.feed", "plugin.feed.*", addressed="automation", hides="all"
    )
    yard.bus.log.append([of_type(yard, "plugin.feed.poll")])
    wanted = JobRequest(plugin="feed", command="poll", submitted_by="cli")
    done = Submission(yard.bus).submit(wanted)
    assert isinstance(done, Submitted)
    (claim,) = QueueSet(yard.bus, [queue.name]).claim("host", group="automation", limit=9)
    assert claim.message.seq == done.seq


def test_a_queue_of_ones_own_takes_every_message(yard: Yard) -> None:
    """`bus run --type task.job` is this user's own act."""
    yard.bus.log.append([of_type(yard, "task.job")])
    own = Queue.create(yard.bus, "task.job", addressed="tasks")
    assert [claim.message.from_agent for claim in own.claim("me")] == ["mallory"]


def test_all_types_that_are_acted_upon_are_listed_once() -> None:
    assert [each.pattern for each in ACTED_TYPES] == [
        *("task.request", "task.job", "task.completion", "plugin.>", "schedule.>")
    ]
    for free in (
        "state_change",
        "task.jobs",
        "task.job.x",
        "task",
        "plugin",
        "plugins.x",
        "task_done",
    ):
        assert acted_type(free) is None, free
    assert {acted_type(each).scope for each in TYPES} == {"tasks:rw", "plugin:rw"}  # type: ignore[union-attr]


# Whose commits -----------------------------------------------------------------------------------


def in_review(yard: Yard, name: str = "secret", **files: str) -> str:
    """The head of a task that waits for its review."""
    head = yard.branch(f"w/{name}", **(files or {"b": "secret\n"}))
    yard.approve(name, head, review="required")
    assert yard.tasks.get(name).state == "IN_REVIEW"
    return head


def reason(yard: Yard) -> str:
    return yard.results[-1].reason


def test_a_branch_of_a_task_goes_by_its_state_alone(yard: Yard) -> None:
    """Also where its owner asks: `bus integrate --branch`."""
    in_review(yard)
    main = yard.main
    yard.ask("w/secret")
    assert yard.integrate() == {"w/secret": "rejected"}
    assert "branch w/secret is that of task 'secret', which is IN_REVIEW" in reason(yard)
    assert (yard.main, yard.tasks.get("secret").state) == (main, "IN_REVIEW")
    yard.tasks.approve("secret", agent="rita")
    assert yard.integrate() == {"secret": "landed"}


@pytest.mark.parametrize("way", ["same", "beyond", "merged", "part"])
def test_a_head_with_commits_of_a_task_that_is_not_approved_is_rejected(
    way: str, yard: Yard
) -> None:
    """Under another name, with more on top, merged into another branch, or a part of them."""
    head = in_review(yard)
    if way == "same":
        yard.git.ok("branch", "other", head)
    elif way == "beyond":
        yard.branch("other", head, a=lines(l5="five"))
    elif way == "part":
        yard.git.ok("branch", "other", head)
        yard.git.ok("branch", "--force", "w/secret", yard.branch("more", head, a=lines(l9="x")))
    else:
        own = yard.branch("own", a=lines(l5="five"))
        tree = yard.git.ok("merge-tree", "--write-tree", own, head).splitlines()[0]
        merge = yard.git.ok("commit-tree", tree, "-p", own, "-p", head, "-m", "both")
        yard.git.ok("branch", "other", merge)
    main = yard.main
    yard.ask("other")
    assert yard.integrate() == {"other": "rejected"}
    assert f"it contains {head[:12]} of task 'secret', which is IN_REVIEW" in reason(yard)
    assert yard.main == main


def test_an_approved_task_lands_no_commits_of_one_that_is_not(yard: Yard) -> None:
    """A task that needs no review is no way around that of another."""
    head = in_review(yard)
    yard.approve("sly", yard.branch("w/sly", head, a=lines(l5="five")))
    assert yard.integrate() == {"sly": "rejected"}
    assert "of task 'secret'" in reason(yard)
    assert yard.tasks.get("sly").attempt == 2


def test_work_that_was_given_up_lands_by_no_plain_branch(yard: Yard) -> None:
    head = in_review(yard)
    yard.tasks.cancel("secret", agent="ann")
    yard.git.ok("branch", "other", head)
    yard.ask("other")
    assert yard.integrate() == {"other": "rejected"}
    assert "which is CANCELLED" in reason(yard)
    yard.approve("again", yard.branch("w/again", head, a=lines(l5="five")))
    assert yard.integrate() == {"again": "landed"}  # whoever approved it has seen all of it


def test_a_branch_without_commits_of_tasks_lands_as_ever(yard: Yard) -> None:
    """Nor does a worker who merged it keep it from landing."""
    in_review(yard)
    plain = yard.branch("plain", a=lines(l5="five"))
    task_head = yard.git.ok("rev-parse", "w/secret")
    tree = yard.git.ok("merge-tree", "--write-tree", task_head, plain).splitlines()[0]
    merge = yard.git.ok("commit-tree", tree, "-p", task_head, "-p", plain, "-m", "with plain")
    yard.git.ok("branch", "--force", "w/secret", merge)
    yard.ask("plain")
    assert yard.integrate() == {"plain": "landed"}


def test_a_dry_run_says_the_same(yard: Yard, run_bus: RunBus) -> None:
    head = in_review(yard)
    yard.git.ok("branch", "other", head)
    yard.ask("other")
    where = ("--dir", yard.bus.directory, "--repo", str(yard.git.path))
    done = run_bus("integrate", "--dry-run", "--json", *where)
    assert json.loads(done.out)["outcome"] == "rejected"


def test_a_forged_approval_lands_nothing(yard: Yard) -> None:
    """A `state_change` is free to publish, and moves no state."""
    head = in_review(yard)
    task = yard.tasks.get("secret")
    payload = {"task": "secret", "attempt": 1, "token": task.token, "to": "APPROVED"}
    yard.bus.publish(STATE_CHANGE, {**payload, "from": "IN_REVIEW", "head": head}, from_agent="w")
    assert yard.integrate() == {}
    assert yard.tasks.get("secret") == task


def test_an_approved_task_whose_entry_is_lost_enters_again_by_its_row(yard: Yard) -> None:
    """As after the repair of a damaged file; one that a person cancelled stays so."""
    yard.task("one", a=lines(l5="five"))
    yard.task("two", b="bb\n")
    queue = Queue.open(yard.bus, "completions")
    first, second = (message.seq for message in yard.said("task.completion"))
    queue.jobs.cancel(second)
    tamper(Path(yard.bus.directory), f"DELETE FROM jobs WHERE seq = {first}")
    assert yard.integrate() == {"one": "landed"}
    assert yard.integrate() == {}


def test_no_completion_of_a_pushpals_worker_lands_a_task(yard: Yard, bus_dir: Path) -> None:
    head = in_review(yard)
    body = {"jobId": "j", "sessionId": "s", "message": "m", "branch": "mine", "commitSha": head}
    Completions(yard.bus).enqueue(body)
    assert yard.integrate() == {"mine": "rejected"}
    assert isinstance(yard.bus, Bus)


# Rows: their words are none for git unless they are the whole ids of commits, or names of branches.

#: The state of a task for which each act gets as far as it can.
ACTS: dict[str, tuple[str, Callable[[Yard], object]]] = {
    "mend": ("ASSIGNED", lambda yard: Spawner(yard.bus).mend(yard.tasks.get("t"))),
    "spawn": ("ASSIGNED", lambda yard: Spawner(yard.bus).spawn(_spec(yard), agent="lead")),
    "done": ("WORKING", lambda yard: finish_task(yard.bus, "t", agent="w", token=1)),
    "clean": ("FAILED", lambda yard: Cleaner(yard.bus).clean(["t"], keeps_files=True)),
    "integrate": ("APPROVED", lambda yard: yard.integrate()),
}

#: The columns whose words reach git.
COLUMNS = (
    *(("tasks", name) for name in ("base", "head", "commit_id", "branch", "target", "base_ref")),
    *(("tasks", name) for name in ("path", "worker", "repository")),
    *(("landings", name) for name in ("candidate", "onto", "head", "tree", "branch", "target")),
)

WORDS = (
    *("--output={file}", "-O{file}", "--exec=touch {file}", "--git-dir={folder}", "--all", "-", ""),
    *("{file}", "../outside/file", "../../../heads/main", "@{{-1}}", "HEAD", "main", "x..main"),
    "{old}\nupdate refs/heads/main {old}\nprepare\ncommit\nstart\ncreate refs/heads/x {old}",
    "{old}\0{old}",
)

BY_DAY = {
    *(("mend", "tasks", "base"), ("integrate", "landings", "candidate")),
    ("spawn", "tasks", "repository"),
}


def _spec(yard: Yard) -> TaskSpec:
    return TaskSpec(task="t", worker="w", folder=str(yard.git.path), review="none")


def _refs_of_others(yard: Yard) -> list[str]:
    """The refs, but those that this project keeps, and the task's branch."""
    refs = yard.git.ok("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return [ref for ref in refs if not ref.startswith(("refs/ackbus/", "refs/heads/w/t "))]


#: By day those whose words once were lines and options of git (the row moved `main`, or emptied any
#: file of the user), or no path.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("act", "column"),
    [
        case(act, column, by_day=(act, *column) in BY_DAY, id=f"{act}-{'.'.join(column)}")
        for act, column in product(ACTS, COLUMNS)
    ],
)
def test_no_word_of_a_row_is_a_line_or_an_option_of_git(
    act: str, column: tuple[str, str], yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(yard.git.path)
    folder, old = tmp_path / "outside", yard.main
    folder.mkdir()
    (folder / "file").write_text("theirs\n")
    yard.git.commit("c", text="c\n")
    yard.task("other", a=lines(l5="five"))
    assert yard.integrate() == {"other": "landed"}
    Spawner(yard.bus).spawn(_spec(yard), agent="lead")
    state, run = ACTS[act]
    refs, there = _refs_of_others(yard), state_of(folder)
    for word in WORDS:
        _remove_tree(yard)
        _forge(yard, state, column, word.format(file=folder / "file", folder=folder, old=old))
        with suppress(AckbusError):
            run(yard)
        assert (_refs_of_others(yard), state_of(folder)) == (refs, there), word


def _remove_tree(yard: Yard) -> None:
    """Remove the tree and the branch of the task, so that an act makes them again."""
    for words in (("unlock",), ("remove", "--force")):
        yard.git("worktree", *words, yard.git.path.parent / "repo.trees" / "t")
    yard.git("branch", "-D", "w/t")


def _forge(yard: Yard, state: str, column: tuple[str, str], word: str) -> None:
    """Make the rows whole but for one word; nobody has a lease."""
    main, (table, name) = yard.main, column
    path = yard.git.path.parent / "repo.trees" / "t"
    directory = Path(yard.bus.directory)
    tamper(
        directory,
        "DELETE FROM task_claims WHERE task_id LIKE 'task.%'",
        f"UPDATE tasks SET state = '{state}', base = '{main}', head = '{main}', commit_id = NULL,"
        f" branch = 'w/t', target = 'main', base_ref = 'main', path = '{path}', worker = 'w',"
        f" repository = '{yard.place.common_dir}', token = 1 WHERE task = 't'",
        f"UPDATE landings SET state = 'intended', candidate = '{main}', onto = '{main}',"
        f" head = '{main}', tree = '{main}', branch = 'w/other', target = 'main'",
    )
    with connect(directory) as connection:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        connection.execute("PRAGMA ignore_check_constraints = ON")
        with suppress(apsw.ConstraintError):
            connection.execute(f"UPDATE {table} SET {name} = ? WHERE task != 'x'", (word,))
