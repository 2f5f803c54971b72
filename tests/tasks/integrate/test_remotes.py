"""Targets of a remote: a bare repository, and two clones of it."""

import os
import sys
import threading
from pathlib import Path

import pytest

from ackbus.git.remote_target import RemoteUnreachable
from ackbus.tasks.agent_program import AttemptRule
from ackbus.tasks.integrate.checks import CheckCommand, NotStarted
from ackbus.tasks.integrate.integrator import Integrator, IntegratorRules

from ...cli.git import Git
from ...conftest import wait_until
from .conftest import Yard, bare_remote, lines


@pytest.fixture
def remote(yard: Yard) -> Git:
    """The bare repository that is `origin` of the yard."""
    return bare_remote(yard)


@pytest.fixture
def other(yard: Yard, remote: Git) -> Git:
    """Another clone of it."""
    path = remote.path.parent / "other"
    remote.ok("clone", "--quiet", remote.path, path)
    return Git(path, yard.git.env)


def hook(repository: Path, name: str, text: str) -> None:
    """Sets a hook of a repository."""
    path = repository / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.slow
def test_pushed_commit_is_the_checked_one_and_the_local_branch_follows(
    yard: Yard, remote: Git
) -> None:
    """U-57: fetch, candidate, check, push."""
    yard.task("one", a=lines(l5="five"))
    assert yard.integrate("git rev-parse HEAD", remote="origin") == {"one": "landed"}
    (check,) = yard.said("check_result")
    landed = remote.ok("rev-parse", "main")
    assert landed == check.payload["output"].strip() == yard.main == yard.tasks.get("one").commit_id
    assert yard.git.ok("status", "--porcelain") == ""


def test_relative_address_of_a_remote_begins_at_the_main_tree(yard: Yard, remote: Git) -> None:
    address = os.path.relpath(remote.path, yard.git.path)
    yard.git.ok("remote", "set-url", "origin", address)
    yard.task("one", a=lines(l5="five"))
    assert yard.integrate(remote="origin") == {"one": "landed"}
    assert remote.ok("rev-parse", "main") == yard.main


@pytest.mark.slow
def test_base_is_the_remotes_and_not_a_stale_local_branch(
    yard: Yard, remote: Git, other: Git
) -> None:
    task = yard.task("one", a=lines(l5="five"))
    other.commit("c")
    other.ok("push", "--quiet")
    assert yard.integrate("test -e c", remote="origin") == {"one": "landed"}
    assert remote.ok("log", "-1", "--format=%P", "main").split() == [other.head, task.head]


@pytest.mark.slow
def test_remote_that_moves_during_the_check_requeues(yard: Yard, remote: Git, other: Git) -> None:
    """U-57: a push that is rejected because the remote moved is tried again."""
    yard.task("one", a=lines(l5="five"))
    push = (
        f"test -e {other.path}/c || (cd {other.path} && echo > c && git add c"
        " && git commit -qm c && git push -q)"
    )
    assert yard.integrate(push, remote="origin") == {"one": "landed"}
    assert [each.outcome for each in yard.results] == ["requeued", "landed"]
    assert remote.ok("ls-tree", "--name-only", "main").split() == ["a", "b", "c"]
    assert remote.ok("rev-parse", "main^1") == other.head


@pytest.mark.slow
def test_two_clones_with_integrators_lose_nothing(yard: Yard, remote: Git, other: Git) -> None:
    for number in range(4):
        yard.task(f"t{number}", **{f"f{number}": "x\n"})
        yard.git.ok("push", "--quiet", "origin", f"w/t{number}")
    other.ok("config", "user.name", "Other")
    other.ok("fetch", "--quiet")
    second = Yard(other, yard.bus)
    for number in range(4, 8):
        second.branch(f"o{number}", "origin/main", **{f"f{number}": "x\n"})
        second.ask(f"o{number}")
    for _ in range(4):
        yard.integrate(remote="origin", batch=1)
        second.integrate(remote="origin", batch=1)
    files = set(remote.ok("ls-tree", "--name-only", "main").split())
    assert files >= {f"f{number}" for number in range(8)}
    assert [each.outcome for each in yard.results + second.results] == ["landed"] * 8


def test_rule_of_the_remote_is_rejected_in_its_words(yard: Yard, remote: Git) -> None:
    """U-57: no rule is gone past."""
    hook(remote.path, "pre-receive", "echo 'main is protected: ask ann' >&2; exit 1")
    yard.task("one", a=lines(l5="five"))
    before = remote.ok("rev-parse", "main")
    assert yard.integrate(remote="origin") == {"one": "rejected"}
    assert "main is protected: ask ann" in yard.results[-1].reason
    assert "pre-receive hook declined" in yard.results[-1].reason
    assert (remote.ok("rev-parse", "main"), yard.main) == (before, before)
    assert yard.tasks.get("one").attempt == 2


def test_hook_before_the_push_runs_and_refuses_in_its_words(yard: Yard, remote: Git) -> None:
    hook(yard.git.path / ".git", "pre-push", "echo 'not on fridays' >&2; exit 1")
    yard.task("one", a=lines(l5="five"))
    assert yard.integrate(remote="origin") == {"one": "rejected"}
    assert "not on fridays" in yard.results[-1].reason


def test_hook_that_hangs_reaches_its_limit(yard: Yard, remote: Git) -> None:
    hook(yard.git.path / ".git", "pre-push", "sleep 600")
    yard.task("one", a=lines(l5="five"))
    assert yard.integrate(remote="origin", push_timeout_s=1.0) == {"one": "rejected"}
    assert "has not ended within 1 s" in yard.results[-1].reason
    assert "look for a hook" in yard.results[-1].reason


def test_push_whose_answer_was_lost_has_landed(yard: Yard, remote: Git) -> None:
    """The remote is asked what it has: the word of the push does not count."""
    hook(remote.path, "post-receive", 'kill -9 "$PPID"')
    yard.task("one", a=lines(l5="five"))
    assert yard.integrate(remote="origin") == {"one": "landed"}
    assert remote.ok("rev-parse", "main") == yard.tasks.get("one").commit_id


def test_dirty_local_tree_does_not_keep_the_remote_from_moving(yard: Yard, remote: Git) -> None:
    yard.task("one", a=lines(l5="five"))
    before = yard.main
    (yard.git.path / "a").write_text("mine\n")
    assert yard.integrate(remote="origin") == {"one": "landed"}
    assert (yard.git.path / "a").read_text() == "mine\n"
    assert yard.main == before


@pytest.mark.slow
def test_remote_that_was_forced_back_is_not_forced(yard: Yard, remote: Git, other: Git) -> None:
    other.commit("c")
    other.ok("push", "--quiet")
    yard.task("one", a=lines(l5="five"))
    force = f"cd {other.path} && git reset -q --hard HEAD~1 && echo > d && git add d"
    force += " && git commit -qm d && git push -q --force"
    yard.integrate(f"test -e {other.path}/d || ({force})", remote="origin")
    assert [each.outcome for each in yard.results] == ["requeued", "landed"]
    assert remote.ok("ls-tree", "--name-only", "main").split() == ["a", "b", "d"]


def beat_of(yard: Yard) -> str | None:
    """The status that the integrator tells."""
    beat = yard.bus.heartbeats.get("integrator")
    return None if beat is None else beat.status


def test_unreachable_remote_is_tried_until_the_attempts_are_used_up(
    yard: Yard, remote: Git
) -> None:
    """U-68: bounded attempts of the integrator: the entry waits, uncounted."""
    yard.task("one", a=lines(l5="five"))
    os.rename(remote.path, remote.path.with_suffix(".gone"))
    integrator = Integrator(
        yard.bus,
        str(yard.git.path),
        IntegratorRules(remote="origin"),
        warn=yard.warnings.append,
        warm_up=AttemptRule(2, 250),
    )
    with pytest.raises(RemoteUnreachable, match="origin can't be fetched"):
        integrator.run(once=True)
    assert len(yard.said("integration_started")) == 0
    assert yard.tasks.get("one").state == "APPROVED"
    os.rename(remote.path.with_suffix(".gone"), remote.path)
    assert yard.integrate(remote="origin") == {"one": "landed"}
    (completion,) = yard.said("task.completion")
    assert yard.results[-1].entry.message.id == completion.id


@pytest.mark.slow
def test_integrator_is_offline_after_its_attempts_and_comes_back(yard: Yard, remote: Git) -> None:
    """U-68: warm-up, offline, and then the entry; later ones have the attempts of a job."""
    os.rename(remote.path, remote.path.with_suffix(".gone"))
    yard.task("one", a=lines(l5="five"))
    integrator = Integrator(
        yard.bus,
        str(yard.git.path),
        IntegratorRules(remote="origin"),
        tell=yard.results.append,
        warn=yard.warnings.append,
        warm_up=AttemptRule(3, 250),
        cooldown_ms=1_000,
    )
    thread = threading.Thread(target=integrator.run)
    thread.start()
    wait_until(lambda: beat_of(yard) == "offline")
    assert yard.results == []
    os.rename(remote.path.with_suffix(".gone"), remote.path)
    wait_until(lambda: yard.results)
    wait_until(lambda: beat_of(yard) == "idle")
    integrator.stop()
    thread.join(30)
    assert [each.outcome for each in yard.results] == ["landed"]
    assert len(yard.warnings) == 1


@pytest.mark.slow
def test_check_that_can_not_be_started_now_blames_no_entry(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U-68: what the machine lacks is transient: the entry stays in the queue, uncounted."""
    yard.task("one", a=lines(l5="five"))
    integrator = Integrator(
        yard.bus,
        str(yard.git.path),
        IntegratorRules(checks=(CheckCommand("true"),)),
        warn=yard.warnings.append,
        warm_up=AttemptRule(2, 250),
    )
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/gone/python")
        with pytest.raises(NotStarted, match="check 'true' can't be started now"):
            integrator.run(once=True)
    assert (yard.tasks.get("one").state, yard.tasks.get("one").attempt) == ("APPROVED", 1)
    assert yard.said("check_result") == []
    assert yard.integrate("true") == {"one": "landed"}
    assert yard.results[-1].entry.tries == 1


def test_permanent_error_is_not_tried_again(yard: Yard, remote: Git) -> None:
    """U-68: one attempt."""
    hook(remote.path, "update", "echo no >&2; exit 1")
    yard.task("one", a=lines(l5="five"))
    assert yard.integrate(remote="origin") == {"one": "rejected"}
    assert len(yard.said("integration_intent")) == 1


@pytest.mark.slow
def test_proposal_opens_a_request_and_lands_when_others_merge_it(
    yard: Yard, tmp_path: Path
) -> None:
    yard.task("one", a=lines(l5="five"))
    before = yard.main
    command = f'echo "$BUS_TASK $BUS_CANDIDATE $BUS_TARGET $BUS_TITLE" > {tmp_path}/asked'
    assert yard.integrate("true", propose=command) == {"one": "proposed"}
    commit = yard.results[-1].commit
    assert commit is not None
    assert (tmp_path / "asked").read_text() == f"one {commit} main Merge one: mend the login\n"
    assert (yard.main, yard.tasks.get("one").state) == (before, "APPROVED")
    assert yard.integrate(propose=command) == {}
    yard.git.ok("merge", "--quiet", "--ff-only", commit)
    assert yard.integrate(propose=command) == {"one": "landed"}
    assert yard.tasks.get("one").state == "COMPLETED"


def test_proposal_that_fails_goes_back(yard: Yard) -> None:
    yard.task("one", a=lines(l5="five"))
    assert yard.integrate(propose="echo no token; exit 4") == {"one": "rejected"}
    assert "could not be proposed" in yard.results[-1].reason
    assert "no token" in yard.results[-1].reason
