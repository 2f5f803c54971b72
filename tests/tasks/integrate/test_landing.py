"""From a completion to a merged and checked commit."""

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from ackbus import Queue
from ackbus.git.branches import candidates
from ackbus.git.branches.candidates import is_part, patch_id
from ackbus.git.repository import GitFailed
from ackbus.git.target_refs import TargetBusy
from ackbus.schema.errors import Refused
from ackbus.subscribers.queues.queues import Queues
from ackbus.tasks.control.requests import Completions
from ackbus.tasks.control.sessions import Sessions
from ackbus.tasks.integrate.checks import CheckCommand
from ackbus.tasks.integrate.integrator import IntegratorRules, checks_of
from ackbus.tasks.integrate.requests import look

from ...cli.git import Git
from ..replay import replay
from .conftest import Yard, lines


def test_approved_task_is_merged_checked_and_completed(yard: Yard) -> None:
    """U-57: candidate, check, landing; the check ran on the commit that landed."""
    before = yard.main
    task = yard.task("one", a=lines(l5="five"))
    assert yard.integrate("git rev-parse HEAD") == {"one": "landed"}
    landed = yard.tasks.get("one")
    assert (landed.state, landed.commit_id) == ("COMPLETED", yard.main)
    (check,) = yard.said("check_result")
    assert (check.payload["output"].strip(), check.payload["exit"]) == (yard.main, 0)
    assert yard.git.ok("log", "-1", "--format=%P", "main").split() == [before, task.head]
    (landing,) = yard.landings("one")
    assert (landing.state, landing.onto, landing.head) == ("landed", before, task.head)
    assert yard.git.ok("status", "--porcelain") == ""
    assert "five" in (yard.git.path / "a").read_text()


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("\n# Fix the *login*\nfor all", "Merge one: Fix the *login*"),
        ({"params": {"instruction": "Fix\tit\x1b[2J"}}, "Merge one: Fix it[2J"),
        ("word " * 40, "Merge one: " + "word " * 11 + "word…"),
        (None, "Merge one"),
        ({"a": 1}, "Merge one"),
        (" \n", "Merge one"),
    ],
)
def test_a_merge_is_titled_by_its_task_and_what_was_to_be_done(
    yard: Yard, prompt: object, title: str
) -> None:
    """One printable line of at most 72 characters, whatever the prompt is."""
    yard.approve("one", yard.branch("w/one", a=lines(l5="five")), prompt=prompt)
    yard.integrate("true")
    assert yard.git.ok("log", "-1", "--format=%s", "main") == title
    assert yard.git.ok("log", "-1", "--format=%(trailers:key=Task)", "main") == "Task: one"


def test_author_is_the_tasks_and_the_committer_the_configured_one(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.task("one", a=lines(l5="five"))
    for name in ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.delenv(name)
    yard.integrate()
    assert yard.git.ok("log", "-1", "--format=%an %cn", "main") == "Ann Integra Tor"


def test_work_that_the_target_has_already_is_said_to_be_unchecked(yard: Yard) -> None:
    """Its worker moved the target: neither outcome nor proof hides that no check ran."""
    task = yard.task("one", a=lines(l5="five"))
    yard.git.ok("merge", "--quiet", "--ff-only", task.branch)
    assert yard.integrate("false") == {"one": "landed"}
    (outcome,) = yard.said("integration_outcome")
    assert outcome.payload["reason"] == "main had it already: nothing was moved, or checked"


def test_each_step_is_a_message_that_answers_the_completion(yard: Yard) -> None:
    """U-59: claimed and merged messages share the id of the completion."""
    yard.task("one", a=lines(l5="five"))
    yard.integrate("true")
    (completion,) = yard.said("task.completion")
    told = [
        message
        for message in yard.bus.read(conversation=completion.conversation)
        if message.in_reply_to == completion.id
    ]
    assert [message.type for message in told] == [
        *("integration_started", "check_result", "integration_intent", "integration_outcome")
    ]
    assert {message.payload["completion"] for message in told} == {completion.id}
    assert told[-1].payload["outcome"] == "landed"
    job = Queue.open(yard.bus, "completions").jobs.get(completion.seq)
    assert job.state == "succeeded"


@pytest.mark.slow
def test_u_59_the_session_of_a_completion_hears_of_each_step(yard: Yard) -> None:
    """U-59: claimed, checked and merged share its id; an unknown session is told nothing."""
    sessions = Sessions(yard.bus)
    sessions.create("s1")
    completions = Completions(yard.bus)
    ids = []
    for name, session in (("one", "s1"), ("two", "elsewhere"), ("three", "s1")):
        head = yard.branch(name, **{"a" if name != "two" else "b": f"{name}\n"})
        body = {"jobId": "j", "message": f"Mend {name}", "branch": name, "commitSha": head}
        ids.append(completions.enqueue({**body, "sessionId": session}))
    assert yard.integrate("true") == {"one": "landed", "two": "landed", "three": "conflict"}
    events = list(replay(sessions, "s1"))
    assert {event.envelope["type"] for event in events} == {"assistant_message"}
    told: dict[str, list[str]] = {}
    for event in events:
        words = event.envelope["payload"]["text"]
        told.setdefault(event.envelope["correlationId"], []).append(words)
    assert told.keys() == {ids[0], ids[2]}
    first, check, merged = told[ids[0]]
    assert first.endswith("claimed one, to merge it into main")
    assert check == "Check 'true' passed"
    assert merged.startswith("Merged into main as ")
    (claimed, refused) = told[ids[2]]
    assert claimed.endswith("claimed three, to merge it into main")
    assert refused.startswith("Not merged into main: conflict")
    message = yard.bus.get(events[0].id)
    assert message is not None
    assert message.in_reply_to == ids[0]


@pytest.mark.parametrize("session", ["s1", "elsewhere", "", 7, None])
def test_u_59_the_session_of_a_task_hears_of_each_step(yard: Yard, session: object) -> None:
    """U-59: also where a worker of ours has done the job; the job says whose it is."""
    sessions = Sessions(yard.bus)
    sessions.create("s1")
    head = yard.branch("w/one", a=lines(l5="five"))
    yard.approve("one", head, prompt={"prompt": "Mend it", "sessionId": session})
    assert yard.integrate("true") == {"one": "landed"}
    (completion,) = yard.said("task.completion")
    named = session if isinstance(session, str) and session else None
    assert completion.payload.get("sessionId") == named
    events = [event.envelope for event in replay(sessions, "s1")]
    assert [each["payload"]["text"].split()[0] for each in events] == (
        ["integrator", "Check", "Merged"] if session == "s1" else []
    )
    assert {each["correlationId"] for each in events} <= {completion.id}


def test_conflict_names_files_and_the_task_that_changed_them(yard: Yard) -> None:
    """U-57: a conflict with a base that has not moved ends the attempt."""
    yard.task("one", a=lines(l5="five"))
    yard.task("two", a=lines(l5="FIVE"), b="bb\n")
    before = yard.main
    assert yard.integrate() == {"one": "landed", "two": "conflict"}
    result = yard.results[-1]
    assert (result.files, result.others) == (("a",), {"a": "one"})
    task = yard.tasks.get("two")
    assert (task.state, task.attempt) == ("ASSIGNED", 2)
    assert task.reason == "it conflicts with the target (last changed by one): a"
    assert yard.git.ok("rev-parse", "main^1") == before


def test_failed_check_ends_the_attempt_with_the_last_line(yard: Yard) -> None:
    yard.task("one", a=lines(l5="five"))
    before = yard.main
    assert yard.integrate("echo no; echo wrong; exit 3") == {"one": "check_failed"}
    assert yard.main == before
    task = yard.tasks.get("one")
    assert (task.state, task.attempt) == ("ASSIGNED", 2)
    assert task.reason is not None
    assert task.reason.endswith("exited with code 3: wrong")
    (outcome,) = yard.said("integration_outcome")
    assert outcome.payload["outcome"] == "check_failed"


@pytest.mark.parametrize("strategy", ["merge", "cherry-pick", "ff"])
def test_every_strategy_lands_the_same_files(yard: Yard, strategy: str) -> None:
    """U-57: cherry-pick, no-ff and ff-only."""
    before = yard.main
    task = yard.task("one", a=lines(l5="five"))
    if strategy == "cherry-pick":
        yard.git.commit("c")
    assert yard.integrate("grep five a", strategy=strategy) == {"one": "landed"}
    assert yard.git.ok("show", "main:a") == lines(l5="five").rstrip()
    parents = yard.git.ok("log", "-1", "--format=%P", "main").split()
    expected = {
        "merge": [before, task.head],
        "cherry-pick": [yard.git.ok("rev-parse", "main~1")],
        "ff": [before],
    }
    assert parents == expected[strategy]
    assert (yard.main == task.head) == (strategy == "ff")


def test_what_is_no_fast_forward_is_a_conflict_without_files(yard: Yard) -> None:
    yard.task("one", a=lines(l5="five"))
    yard.git.commit("c")
    assert yard.integrate(strategy="ff") == {"one": "conflict"}
    assert "rebase" in yard.results[-1].reason


def test_cherry_pick_keeps_authors_and_messages_and_drops_what_is_there(yard: Yard) -> None:
    first = yard.branch("w/one", a=lines(l5="five"))
    second = yard.branch("w/one", first, b="bb\n")
    yard.git.ok("cherry-pick", first)
    yard.approve("one", second)
    assert yard.integrate(strategy="cherry-pick") == {"one": "landed"}
    assert yard.subjects()[0] == "work of w/one"
    assert yard.git.ok("rev-list", "--count", "main") == "3"
    assert yard.tasks.get("one").commit_id == yard.main


@pytest.mark.slow
def test_one_bad_change_of_a_batch_is_found_and_the_others_land(yard: Yard, tmp_path: Path) -> None:
    """U-57: the target only moves to a commit that passed."""
    for number in range(15):
        yard.task(f"t{number}", **{f"f{number}": "x\n"})
    yard.task("bad", bad="x\n")
    outcomes = yard.integrate(f"echo >> {tmp_path}/runs; test ! -e bad", batch=16)
    bad = outcomes.pop("bad")
    assert (bad, set(outcomes.values()), len(outcomes)) == ("check_failed", {"landed"}, 15)
    passed = {
        message.payload["candidate"]
        for message in yard.said("check_result")
        if message.payload["exit"] == 0
    }
    moves = yard.git.ok("reflog", "--format=%H", "main").splitlines()[:-1]
    assert set(moves) <= passed
    assert yard.said("integration_intent")[0].payload["moves_to"] in passed
    runs = len((tmp_path / "runs").read_text())
    assert runs == 6  # of all 16, of the first 8, the next 4, 2, 1, and of the bad one


@pytest.mark.parametrize("mend", ["echo five > b", "echo five > b; git commit -qam mended"])
def test_check_that_changes_files_leaves_the_next_one_the_candidate(yard: Yard, mend: str) -> None:
    """A formatter without --check: its files would not land, so they are not what is tested."""
    before = yard.main
    yard.task("one", a=lines(l5="five"))
    checks = (f"{mend}; touch built", "test -e built && grep five b")
    assert yard.integrate(*checks) == {"one": "check_failed"}
    assert yard.main == before


def test_flaky_check_that_changes_files_is_run_again_on_the_candidate(yard: Yard) -> None:
    yard.task("one", a=lines(l5="five"))
    check = CheckCommand("grep five b || { echo five > b; exit 1; }", is_flaky=True)
    assert yard.integrate(check) == {"one": "check_failed"}


def test_file_that_git_ignores_is_not_written_over(yard: Yard) -> None:
    """Git overwrites what it ignores: a person's settings would be gone."""
    yard.task("one", secret="theirs\n")
    (yard.git.path / ".git/info/exclude").write_text("secret\n")
    secret = yard.git.path / "secret"
    secret.write_text("mine")
    before = yard.main
    with pytest.raises(TargetBusy, match="secret would be overwritten, and git does not have it"):
        yard.integrate()
    assert (secret.read_text(), yard.main) == ("mine", before)
    secret.unlink()
    assert yard.integrate() == {"one": "landed"}
    assert secret.read_text() == "theirs\n"


@pytest.mark.slow
def test_folder_that_becomes_a_file_and_back_lands(yard: Yard) -> None:
    (yard.git.path / "d").mkdir()
    yard.git.commit("d/f")
    aside = yard.git.path.parent / "swap"
    for name, made in (("three", "d"), ("four", "d/f")):
        yard.git.ok("worktree", "add", "--quiet", "-b", f"w/{name}", aside, "main")
        there = Git(aside, yard.git.env)
        there.ok("rm", "-rq", "d")
        there.commit(made)
        yard.git.ok("worktree", "remove", "--force", aside)
        yard.approve(name, yard.git.ok("rev-parse", f"w/{name}"))
        assert yard.integrate() == {name: "landed"}
        assert yard.git.ok("status", "--porcelain") == ""


def test_lock_of_an_index_in_the_way_is_named(yard: Yard) -> None:
    yard.task("one", a=lines(l5="five"))
    lock = yard.git.path / ".git/index.lock"
    lock.touch()
    with pytest.raises(TargetBusy, match=r"index\.lock is there: a git is at work"):
        yard.integrate()
    lock.unlink()
    assert yard.integrate() == {"one": "landed"}


def test_flaky_check_is_run_once_more(yard: Yard, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    yard.task("one", a=lines(l5="five"))
    command = f"test -e {flag} || {{ touch {flag}; exit 1; }}"
    assert yard.integrate(CheckCommand(command, is_flaky=True)) == {"one": "landed"}
    (check,) = yard.said("check_result")
    assert (check.payload["runs"], check.payload["exit"]) == (2, 0)


def test_check_that_takes_too_long_is_ended(yard: Yard) -> None:
    """U-57: each check has a time limit."""
    yard.task("one", a=lines(l5="five"))
    assert yard.integrate("sleep 600", check_timeout_s=0.2) == {"one": "check_failed"}
    assert "has not ended within 0.2 s" in yard.results[-1].reason


def test_long_output_is_kept_whole_and_its_end_is_in_the_message(yard: Yard) -> None:
    yard.task("one", a=lines(l5="five"))
    assert yard.integrate("seq 1 20000") == {"one": "landed"}
    (check,) = yard.said("check_result")
    assert check.payload["output"].endswith("19999\n20000\n")
    assert len(check.payload["output"]) == 2000
    (whole,) = yard.said("check_output")
    assert whole.payload_ref is not None
    assert whole.payload["output"].splitlines()[0] == "1"
    assert len(whole.payload["output"].splitlines()) == 20000


def test_leftovers_of_a_check_are_killed_before_the_target_moves(
    yard: Yard, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    yard.task("one", a=lines(l5="five"))
    command = f"setsid sleep 600 & echo $! > {pid}; sleep 601 & true"
    assert yard.integrate(command) == {"one": "landed"}
    number = int(pid.read_text())
    status = Path(f"/proc/{number}/stat")
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.slow
def test_check_sees_a_clean_tree_each_time(yard: Yard) -> None:
    yard.task("one", a=lines(l5="five"))
    yard.task("two", a=lines(l25="x"), **{".gitignore": "built\n"})
    command = "test ! -e built && test ! -e other && touch built other"
    assert yard.integrate(command, batch=1) == {"one": "landed", "two": "landed"}
    assert not yard.git.ok("worktree", "list").splitlines()[1:]


@pytest.mark.slow
def test_target_that_moves_during_the_check_requeues(yard: Yard) -> None:
    """U-57: what was tested is what lands; else it is tested again."""
    yard.task("one", a=lines(l5="five"))
    there = yard.git.path
    command = f"test -e {there}/c || (cd {there} && echo c > c && git add c && git commit -qm c)"
    assert [
        yard.integrate(command),
        [each.outcome for each in yard.results],
    ] == [{"one": "landed"}, ["requeued", "landed"]]
    assert yard.git.ok("show", "main:c") == "c"
    assert [each.state for each in yard.landings("one")] == ["abandoned", "landed"]


@pytest.mark.slow
def test_target_that_always_moves_costs_its_task_no_attempt(yard: Yard) -> None:
    """U-56: at most three tries in a row; then the entry waits, and lands when all is quiet."""
    yard.task("one", a=lines(l5="five"))
    there = yard.git.path
    with pytest.raises(TargetBusy, match="3 times in a row; it is tried again"):
        yard.integrate(f"cd {there} && git commit -q --allow-empty -m more")
    assert [each.outcome for each in yard.results] == ["requeued"] * 3
    task = yard.tasks.get("one")
    assert (task.state, task.attempt) == ("APPROVED", 1)
    assert yard.integrate("true") == {"one": "landed"}


@pytest.mark.slow
def test_file_that_can_not_be_written_leaves_the_tree_of_the_target_as_it_is(yard: Yard) -> None:
    """Without a check: the target is not moved, and its work tree is as it was."""
    yard.git.ok("config", "filter.bad.smudge", "exit 3")
    yard.git.ok("config", "filter.bad.clean", "cat")
    yard.git.ok("config", "filter.bad.required", "true")
    head = yard.branch("w/bad", a=lines(l5="five"), **{"x.bad": "x\n"})
    (yard.git.path / ".git" / "info").mkdir(exist_ok=True)
    (yard.git.path / ".git" / "info" / "attributes").write_text("*.bad filter=bad\n")
    yard.approve("bad", head)
    before = yard.main
    with pytest.raises(TargetBusy, match="external filter 'exit 3' failed"):
        yard.integrate()
    assert yard.main == before
    assert yard.git.ok("status", "--porcelain") == ""
    yard.git.ok("config", "filter.bad.smudge", f"cp {yard.git.path}/b {yard.git.path}/a; exit 3")
    with pytest.raises(TargetBusy, match="external filter"):  # somebody changes a meanwhile
        yard.integrate()
    assert (yard.git.path / "a").read_text() == "b\n"


def test_dirty_tree_of_the_target_is_one_line_and_nothing_is_lost(yard: Yard) -> None:
    yard.task("one", a=lines(l5="five"))
    (yard.git.path / "b").write_text("mine\n")
    before = yard.main
    with pytest.raises(TargetBusy, match=r"is not clean.*not committed: b.*commit or stash"):
        yard.integrate()
    assert (yard.main, yard.tasks.get("one").state) == (before, "APPROVED")
    assert (yard.git.path / "b").read_text() == "mine\n"
    yard.git.ok("checkout", "--quiet", "b")
    assert yard.integrate() == {"one": "landed"}


def test_untracked_file_in_the_way_is_kept(yard: Yard) -> None:
    yard.task("one", c="theirs\n")
    (yard.git.path / "c").write_text("mine\n")
    before = yard.main
    with pytest.raises(TargetBusy, match="c"):
        yard.integrate()
    assert ((yard.git.path / "c").read_text(), yard.main) == ("mine\n", before)
    assert yard.git.ok("status", "--porcelain") == "?? c"
    (yard.git.path / "c").unlink()
    assert yard.integrate() == {"one": "landed"}


def test_target_checked_out_in_a_linked_tree_goes_along(yard: Yard, tmp_path: Path) -> None:
    yard.git.ok("checkout", "--quiet", "--detach")
    yard.git.ok("worktree", "add", "--quiet", tmp_path / "linked", "main")
    yard.task("one", a=lines(l5="five"))
    assert yard.integrate() == {"one": "landed"}
    linked = Git(tmp_path / "linked", yard.git.env)
    assert (linked.head, linked.ok("status", "--porcelain")) == (yard.main, "")
    assert "five" not in (yard.git.path / "a").read_text()


@pytest.mark.slow
def test_dry_run_claims_and_changes_nothing(yard: Yard) -> None:
    """U-60: a dry run and then a real one."""
    yard.task("one", a=lines(l5="five"))
    yard.task("two", a=lines(l5="FIVE"))
    before = (yard.bus.stats().messages, yard.main, yard.git.ok("count-objects", "-v"))
    results = list(look(yard.bus, yard.place, IntegratorRules()))
    assert [(each.entry.name, each.outcome, each.files) for each in results] == [
        ("one", "would_land", ()),
        ("two", "conflict", ("a",)),
    ]
    assert before == (yard.bus.stats().messages, yard.main, yard.git.ok("count-objects", "-v"))
    assert not Queue.open(yard.bus, "completions").jobs.counts().get("running")
    assert yard.integrate() == {"one": "landed", "two": "conflict"}


@pytest.mark.slow
def test_same_commit_of_a_branch_enters_once(yard: Yard) -> None:
    """U-56: unique by remote, branch and head."""
    yard.branch("topic", a=lines(l5="five"))
    yard.ask("topic")
    with pytest.raises(Refused, match="waits already"):
        yard.ask("topic")
    before = yard.main
    assert yard.integrate() == {"topic": "landed"}
    with pytest.raises(Refused, match="has landed, as"):
        yard.ask("topic")
    yard.git.ok("reset", "--quiet", "--hard", before)  # a person undoes the landing
    yard.ask("topic")
    assert yard.integrate() == {"topic": "landed"}
    assert yard.git.ok("merge-base", "--is-ancestor", "topic", "main") == ""


@pytest.mark.slow
def test_priority_goes_first_and_a_held_queue_waits(yard: Yard) -> None:
    """U-56: by priority, then by age."""
    for name, priority in (("low", 2), ("mid", 1), ("high", 0)):
        yard.approve(name, yard.branch(f"w/{name}", **{name: "x\n"}), priority=priority)
    Queues(yard.bus).pause("completions")
    assert yard.integrate() == {}
    Queues(yard.bus).resume("completions")
    yard.integrate(batch=1)
    assert [each.entry.name for each in yard.results] == ["high", "mid", "low"]


def test_failed_head_does_not_stop_the_queue(yard: Yard) -> None:
    yard.task("gone", a=lines(l5="five"))
    yard.approve("missing", "f" * 40)
    yard.task("two", b="bb\n")
    yard.tasks.cancel("gone", agent="lead")
    assert yard.integrate(batch=1) == {"gone": "rejected", "missing": "rejected", "two": "landed"}
    assert "there is no commit ffff" in yard.results[1].reason


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["blob", "tree"])
@pytest.mark.parametrize("harm", ["missing", "empty"])
def test_commit_that_git_can_not_read_does_not_stop_the_queue(
    yard: Yard, kind: str, harm: str
) -> None:
    """A power loss, or a wrong clean-up of objects: the entry goes back, and the others land."""
    head = yard.branch("w/bad", bad="bad\n")
    yard.approve("bad", head)
    yard.task("good", b="bb\n")
    id = yard.git.ok("rev-parse", f"{head}:bad" if kind == "blob" else f"{head}^{{tree}}")
    file = yard.git.path / ".git" / "objects" / id[:2] / id[2:]
    file.unlink()
    if harm == "empty":
        file.touch()
    assert yard.integrate("true") == {"bad": "rejected", "good": "landed"}
    assert "git can't read all of it: " in yard.results[0].reason


@pytest.mark.slow
def test_candidate_that_can_not_be_checked_out_does_not_stop_the_queue(yard: Yard) -> None:
    """By a filter that fails: the one at fault is found, and goes back."""
    yard.git.ok("config", "filter.bad.smudge", "exit 3")
    yard.git.ok("config", "filter.bad.clean", "cat")
    yard.git.ok("config", "filter.bad.required", "true")
    yard.task("one", a=lines(l5="five"))
    head = yard.branch("w/bad", **{"x.bad": "x\n"})
    info = yard.git.path / ".git" / "info" / "attributes"
    info.parent.mkdir(exist_ok=True)
    info.write_text("*.bad filter=bad\n")
    yard.approve("bad", head)
    yard.task("two", b="bb\n")
    found = yard.integrate("true")
    assert found == {"one": "landed", "bad": "check_failed", "two": "landed"}
    (bad,) = (each for each in yard.results if each.outcome == "check_failed")
    assert "external filter 'exit 3' failed" in bad.reason


@pytest.mark.slow
def test_machine_that_can_check_out_nothing_blames_no_entry(yard: Yard) -> None:
    yard.git.ok("config", "filter.bad.smudge", "exit 3")
    yard.git.ok("config", "filter.bad.clean", "cat")
    yard.git.ok("config", "filter.bad.required", "true")
    (yard.git.path / ".git" / "info").mkdir(exist_ok=True)
    yard.task("one", a=lines(l5="five"))
    attributes = yard.git.path / ".git" / "info" / "attributes"
    attributes.write_text("* filter=bad\n")
    with pytest.raises(GitFailed, match="external filter"):
        yard.integrate("true")
    attributes.unlink()
    assert yard.integrate("true") == {"one": "landed"}


@pytest.mark.slow
def test_task_that_is_cancelled_during_its_check_does_not_land(yard: Yard) -> None:
    yard.task("one", a=lines(l5="five"))
    yard.task("two", b="bb\n")
    bus = Path(sysconfig.get_path("scripts"), "bus")
    cancel = f"{bus} task cancel one --agent lead || true"
    assert yard.integrate(cancel) == {"one": "rejected", "two": "landed"}
    assert yard.tasks.get("one").state == "CANCELLED"
    assert yard.git.ok("show", "main:a") == lines().rstrip()


def test_what_the_target_has_already_has_landed(yard: Yard) -> None:
    task = yard.task("one", a=lines(l5="five"))
    assert task.head is not None
    yard.git.ok("merge", "--quiet", "--no-ff", "-m", "by hand", task.head)
    before = yard.main
    assert yard.integrate("false") == {"one": "landed"}
    assert (yard.main, yard.tasks.get("one").commit_id) == (before, task.head)


def test_unrelated_history_is_rejected_in_one_line(yard: Yard) -> None:
    tree = yard.git.ok("rev-parse", "main^{tree}")
    stranger = yard.git.ok("commit-tree", tree, "-m", "stranger")
    yard.approve("one", stranger)
    assert yard.integrate() == {"one": "rejected"}
    assert "no commit in common" in yard.results[-1].reason


def test_checks_come_from_the_settings_of_git_and_not_from_a_commit(yard: Yard) -> None:
    yard.git.ok("config", "--add", "ackbus.check", "test ! -e bad")
    yard.git.ok("config", "--add", "ackbus.check", "true")
    checks = checks_of(yard.place)
    assert [check.command for check in checks] == ["test ! -e bad", "true"]
    yard.task("one", bad="x\n", **{".gitconfig": "[ackbus]\ncheck = true\n"})
    assert yard.integrate(*checks) == {"one": "check_failed"}


@pytest.mark.slow
def test_hooks_do_not_run_at_candidates_and_a_refusing_one_is_told(yard: Yard) -> None:
    hooks = yard.git.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "commit-msg", "pre-merge-commit", "post-checkout", "post-merge"):
        (hooks / name).write_text("#!/bin/sh\ntouch ../hook-ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    head = yard.git.ok(
        *("commit-tree", "main^{tree}", "-p", "main", "-m", "empty"),
    )
    yard.approve("empty", head)
    assert yard.integrate("true") == {"empty": "landed"}
    assert not (yard.git.path / "hook-ran").exists()
    (hooks / "reference-transaction").write_text(
        '#!/bin/sh\ngrep -q refs/heads/main && test "$1" = prepared && exit 1\nexit 0\n'
    )
    (hooks / "reference-transaction").chmod(0o755)
    head = yard.git.ok("commit-tree", "main^{tree}", "-p", "main", "-m", "more")
    yard.approve("more", head)
    assert yard.integrate() == {"more": "rejected"}
    assert re.search("hook", yard.results[-1].reason)


def test_merge_that_would_take_back_the_work_of_others_is_found(yard: Yard) -> None:
    """A green merge that reverts others: only what was approved may change."""
    git = yard.place.git
    before = yard.main
    theirs = yard.branch("theirs", c="theirs\n")
    mine = yard.branch("mine", d="mine\n")
    merged = yard.git.ok("commit-tree", f"{mine}^{{tree}}", "-p", theirs, "-m", "reverts c")
    assert is_part(git, (before, mine), (before, mine))
    assert not is_part(git, (theirs, merged), (before, mine))
    assert patch_id(git, theirs, merged) != patch_id(git, before, mine)


@pytest.mark.slow
def test_commits_are_signed_where_that_is_configured_and_asks_nobody(
    yard: Yard, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    made = subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=False
    ).returncode
    assert made == 0
    yard.git.ok("config", "gpg.format", "ssh")
    yard.git.ok("config", "user.signingKey", key)
    yard.task("one", a=lines(l5="five"))
    head_two = yard.branch("w/two", b="bb\n")
    yard.git.ok("config", "commit.gpgSign", "true")
    assert yard.integrate() == {"one": "landed"}
    assert "gpgsig" in yard.git.ok("cat-file", "commit", "main")
    before = yard.main
    yard.git.ok("config", "user.signingKey", str(tmp_path / "gone"))
    yard.approve("two", head_two)
    assert yard.integrate() == {"two": "rejected"}
    assert yard.main == before


#: Programs that sign nothing, and what is told of them.
SIGNERS = {
    # Git hands on what gpg says from 2.41 on; before, only that it failed.
    "fails": ("echo no secret key >&2; exit 2", "gpg failed to sign the data"),
    "fails without a word": ("exit 1", "can't be signed"),
    "says that it signed, and did not": ("exit 0", "can't be signed"),
    "hangs": ("sleep 1000", "the signer has not ended within 0.5 s"),
    "hangs with a child": ("sleep 1000 & wait", "the signer has not ended within 0.5 s"),
    "is killed": ("kill -9 $$", "can't be signed"),
}


@pytest.mark.parametrize(("line", "words"), SIGNERS.values(), ids=SIGNERS)
def test_nothing_lands_unsigned_where_signing_is_configured(
    line: str,
    words: str,
    yard: Yard,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Issue 31, item 19: tried again once, then rejected with the signer's words."""
    monkeypatch.setattr(candidates, "_SIGNING_S", 0.5)
    signer = tmp_path / "signer"
    signer.write_text(f"#!/bin/sh\n{line}\n")
    signer.chmod(0o700)
    yard.task("one", a=lines(l5="five"))
    before = yard.main
    yard.git.ok("config", "gpg.program", signer)
    yard.git.ok("config", "commit.gpgSign", "true")
    assert yard.integrate() == {"one": "rejected"}
    assert yard.main == before
    assert [each.outcome for each in yard.results] == ["requeued", "rejected"]
    assert all(words in each.reason for each in yard.results)


def test_operation_under_way_in_the_tree_of_the_target_is_waited_for(yard: Yard) -> None:
    other = yard.branch("other", a=lines(l5="theirs"))
    yard.git.commit("a", text=lines(l5="mine"))
    assert yard.git("merge", "--quiet", other).code == 1
    yard.task("one", b="bb\n")
    with pytest.raises(TargetBusy, match="a merge is under way"):
        yard.integrate()
    yard.git.ok("merge", "--abort")
    assert yard.integrate() == {"one": "landed"}
