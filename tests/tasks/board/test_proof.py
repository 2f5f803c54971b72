"""Landing proofs: one record of request, plan, attempts, reviews, checks, intent and commit."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Draft
from ackbus.bus.signing import Keyring
from ackbus.errors import Refused
from ackbus.schema.errors import NotFound
from ackbus.tasks.board.proof import prove, verify
from ackbus.tasks.records.task_table import Landing, Landings
from ackbus.tasks.steps.messages import TASKS

from ...conftest import RunBus
from ...git_branches.plain_git import git
from ...programs import tamper
from .conftest import Workshop


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keyring:
    """The keys of this user: none yet."""
    monkeypatch.setenv("BUS_KEYS_DIR", str(tmp_path / "keys"))
    return Keyring()


def say(bus: Bus, type: str, **payload: object) -> int:
    draft = Draft(type, payload, from_agent="integrator", to_agent=TASKS, correlation_id="job-1")
    return bus.log.append([draft])[0].seq


def integrate(workshop: Workshop, name: str, *, exit: int = 0) -> str:
    """Lands a task by hand, with the words of an integrator; returns the commit."""
    task = workshop.tasks.get(name)
    about = {"task": name, "attempt": task.attempt}
    onto = git(workshop.path, "rev-parse", "main")
    assert task.head is not None
    say(workshop.bus, "integration_started", **about, head=task.head, target="main", onto=onto)
    tree = git(workshop.path, "merge-tree", "--write-tree", onto, task.head)
    commit = git(
        *(workshop.path, "commit-tree", tree, "-p", onto, "-p", task.head, "-m", f"Land {name}")
    )
    say(workshop.bus, "check_result", **about, command="make test", exit=exit, duration_ms=5)
    seq = say(workshop.bus, "integration_intent", **about, candidate=commit, onto=onto, tree=tree)
    Landings.of(workshop.bus).add(
        Landing(
            seq=seq,
            repository=task.repository,
            target="main",
            task=name,
            attempt=task.attempt,
            branch=task.branch,
            head=task.head,
            onto=onto,
            candidate=commit,
            tree=tree,
            patch_id="",
            checks=(),
            state="landed",
            completion_seq=seq,
            intended_at_ms=1,
            ended_at_ms=2,
        )
    )
    git(workshop.path, "update-ref", "refs/heads/main", commit, onto)
    say(workshop.bus, "integration_outcome", **about, outcome="landed", commit=commit, files=[])
    workshop.tasks.land(name, attempt=task.attempt, agent="integrator", commit=commit)
    return commit


def land(workshop: Workshop, *, review: str = "other", exit: int = 0) -> str:
    """A request, a plan, an attempt that is rejected, one that is approved, and the landing."""
    bus, tasks = workshop.bus, workshop.tasks
    bus.log.append(
        [
            Draft("task.request", "mend it", from_agent="ann", to_agent=TASKS, id="job-1"),
            Draft(
                "task.job",
                {"task": "one"},
                from_agent="planner",
                to_agent=TASKS,
                in_reply_to="job-1",
                id="job-2",
            ),
        ]
    )
    task = workshop.begin("one", review=review, correlation_id="job-1", in_reply_to="job-2")
    other = workshop.begin("other", worker="worker-2", correlation_id="job-1")
    workshop.finish(other, b="other")
    workshop.finish(task, a="first try\n")
    tasks.reject("one", agent="rita", words="again")
    task = tasks.start("one", agent="worker-1")
    workshop.finish(task, a="second try\n")
    if review == "other":
        tasks.approve("one", agent="rita", words="good")
    return integrate(workshop, "one", exit=exit)


def test_a_proof_tells_the_whole_way_from_the_request_to_the_commit(workshop: Workshop) -> None:
    commit = land(workshop)
    proof = prove(workshop.bus, "one", str(workshop.path), agent="lead")
    assert proof["problems"] == []
    assert (proof["task"], proof["commit"], proof["attempt"]) == ("one", commit, 2)
    assert [each["says"] for each in proof["request"]] == ["mend it"]
    assert [each["by"] for each in proof["plan"]] == ["planner"]
    states = [(each["says"]["attempt"], each["says"]["to"]) for each in proof["attempts"]]
    assert states == [
        *((1, state) for state in ("ASSIGNED", "WORKING", "IN_REVIEW", "FAILED")),
        *((2, state) for state in ("ASSIGNED", "WORKING", "IN_REVIEW", "APPROVED", "COMPLETED")),
    ]
    results = [each["says"].get("result") for each in proof["reviews"]]
    assert results == [None, "rejected", None, "approved"]
    assert [each["says"]["exit"] for each in proof["checks"]] == [0]
    assert [each["says"]["candidate"] for each in proof["intent"]] == [commit]
    assert [each["says"]["outcome"] for each in proof["outcome"]] == ["landed"]
    assert not any("other" in json.dumps(each) for each in proof["plan"])
    assert prove(workshop.bus, commit[:10], str(workshop.path))["task"] == "one"
    assert verify(workshop.bus, proof) == []


def test_what_comes_later_changes_no_proof(workshop: Workshop) -> None:
    land(workshop)
    proof = prove(workshop.bus, "one", ".")
    say(workshop.bus, "note", task="one", text="later")
    workshop.tasks.mark_cleaned("one")
    git(workshop.path, "branch", "--delete", "--force", "worker-1/one")
    assert verify(workshop.bus, proof) == []


def test_a_proof_is_signed_where_there_is_a_key(workshop: Workshop, keys: Keyring) -> None:
    land(workshop)
    assert prove(workshop.bus, "one", ".", agent="lead")["signature"] is None
    keys.create("lead")
    proof = prove(workshop.bus, "one", ".", agent="lead")
    assert proof["signature"].startswith("v1.")
    assert verify(workshop.bus, proof) == []
    for field, value in (("made_by", "mallory"), ("made_at", "2026-01-01T00:00:00.000Z")):
        (found,) = verify(workshop.bus, proof | {field: value})
        assert found.startswith("signature: it is not one of")
    keys.create("lead", rotate=True)
    assert verify(workshop.bus, proof) == []
    keys.remove("lead")
    assert len(verify(workshop.bus, proof)) == 1


@pytest.mark.slow
def test_a_changed_proof_does_not_agree(workshop: Workshop) -> None:
    land(workshop)
    proof = prove(workshop.bus, "one", ".")
    for field in proof.keys() - {"form", "task", "made_at", "made_by", "problems", "signature"}:
        assert verify(workshop.bus, proof | {field: "else"}) == [
            f"{field}: the proof does not say what the log and git say now"
        ]
    assert verify(workshop.bus, {**proof, "form": "x"})[0].startswith("this is no landing proof")
    assert verify(workshop.bus, {**proof, "task": "two"}) == [
        "no task is named 'two', or has landed as such a commit; see 'bus task list --all'"
    ]


def test_a_log_that_was_changed_does_not_agree(workshop: Workshop) -> None:
    land(workshop)
    proof = prove(workshop.bus, "one", ".")
    tamper(
        Path(workshop.bus.layout.directory),
        "UPDATE messages SET payload = replace(payload, 'again', 'fine')"
        " WHERE type = 'review_result'",
    )
    found = " ".join(verify(workshop.bus, proof))
    assert "reviews: the proof does not say" in found
    assert "messages: the proof does not say" in found


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("DELETE FROM messages WHERE type = 'integration_intent'", "no intent of an integrator"),
        ("DELETE FROM messages WHERE type = 'integration_outcome'", "no outcome says that"),
        ("DELETE FROM messages WHERE type = 'review_result'", "no approval of the last attempt"),
        ("UPDATE tasks SET worker = 'x' WHERE task = 'one'", "do not add up"),
        (
            "UPDATE messages SET from_agent = 'worker-1' WHERE type = 'review_result'",
            "only its worker worker-1 has approved it",
        ),
        (
            "UPDATE messages SET payload = json_set(payload, '$.tree', '1')"
            " WHERE type = 'integration_intent'",
            "git has another tree",
        ),
    ],
)
def test_what_is_missing_in_the_log_is_named(workshop: Workshop, sql: str, problem: str) -> None:
    land(workshop)
    tamper(Path(workshop.bus.layout.directory), sql)
    assert any(problem in each for each in prove(workshop.bus, "one", ".")["problems"])


def test_a_failed_check_and_a_rewound_target_are_named(workshop: Workshop) -> None:
    commit = land(workshop, exit=2)
    git(workshop.path, "update-ref", "refs/heads/main", f"{commit}^")
    assert prove(workshop.bus, "one", ".")["problems"] == [
        "the check 'make test' ended with 2, and the commit landed all the same",
        f"branch main does not have {commit}",
    ]
    git(workshop.path, "update-ref", "-d", "refs/heads/main")
    assert prove(workshop.bus, "one", ".")["problems"][1] == "git has no branch main"


def test_a_message_that_its_sender_did_not_sign_is_named(workshop: Workshop, keys: Keyring) -> None:
    keys.create("rita")
    workshop.bus.log.look_again()
    land(workshop)
    assert prove(workshop.bus, "one", ".")["problems"] == []
    tamper(
        Path(workshop.bus.layout.directory),
        "UPDATE messages SET payload = replace(payload, 'good', 'best')"
        " WHERE type = 'review_result' AND payload LIKE '%good%'",
    )
    (problem,) = prove(workshop.bus, "one", ".")["problems"]
    assert problem.endswith("from rita is not what its sender signed")


def test_what_has_not_landed_has_no_proof(workshop: Workshop) -> None:
    workshop.begin("one")
    with pytest.raises(Refused, match="task 'one' is WORKING: it has not landed"):
        prove(workshop.bus, "one", ".")
    with pytest.raises(NotFound, match="no task is named 'main'"):
        prove(workshop.bus, "main", str(workshop.path))


@pytest.mark.slow
def test_bus_task_proof_and_verify(workshop: Workshop, run_bus: RunBus, tmp_path: Path) -> None:
    workshop.clock.now_ms = time.time_ns() // 1_000_000
    commit = land(workshop)
    place = ("--dir", workshop.bus.layout.directory)
    made = run_bus("task", "proof", commit, *place, cwd=workshop.path)
    assert (made.code, made.err) == (0, "")
    file = tmp_path / "proof.json"
    file.write_text(made.out)
    checked = run_bus("task", "proof", "--verify", file, *place, cwd=workshop.path)
    assert (checked.code, checked.out) == (0, "all agrees\n")
    proof: dict[str, Any] = json.loads(made.out)
    wrong = json.dumps(proof | {"worker": "x"})
    refused = run_bus(
        "task", "proof", "--verify", "-", "--json", *place, stdin=wrong, cwd=workshop.path
    )
    assert refused.code == 1
    assert json.loads(refused.out)["problems"] == [
        "worker: the proof does not say what the log and git say now"
    ]
    assert run_bus("task", "proof", "nobody", *place).code == 4
    assert run_bus("task", "proof", "other", *place).code == 3
    for args in ((), ("one", "--verify", "x"), ("--verify", "no-such-file")):
        wrong_use = run_bus("task", "proof", *args, *place)
        assert (wrong_use.code, wrong_use.err.count("\n")) == (2, 1)
