"""Workers of tasks: real processes, real git, real programs."""

import json
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus
from ackbus.schema.errors import Refused
from ackbus.schema.message.draft import Draft
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.tasks.agent_program import AgentProgram, AttemptRule
from ackbus.tasks.records.worker_details import JobOutput
from ackbus.tasks.roles.job_tree import Ports, TreeSettings
from ackbus.tasks.roles.work import TaskWorker, WorkSettings

from ...conftest import RunBus, wait_until
from ..conftest import enter
from .conftest import Jobs, RunWorker, git

pytestmark = pytest.mark.slow

#: A program that writes the words of its prompt into a file of the first one's name.
WRITES = 'read name words; echo "$words" >"$name"'

#: Makes a repository in a folder of the work tree.
INNER = (
    "git init -q inner; echo x >inner/x; git -C inner add x;"
    " git -C inner -c user.name=a -c user.email=b commit -qm x"
)


def trees(repo: Path) -> list[str]:
    """The linked work trees of a repository."""
    lines = git(repo, "worktree", "list", "--porcelain").splitlines()
    return [line.split(" ", 1)[1] for line in lines if line.startswith("worktree ")][1:]


def worker(bus: Bus, repo: Path, script: str, **settings: Any) -> TaskWorker:
    """A worker in this process."""
    name = settings.pop("worker", "w1")
    trees = TreeSettings(folder=str(repo), **settings.pop("trees", {}))
    program = settings.pop("program", AgentProgram(("sh", "-c", script)))
    return TaskWorker(bus, WorkSettings(worker=name, program=program, trees=trees, **settings))


class TestCommits:
    """Only what changed something, of a kind that commits, goes on to the integrator."""

    def test_u_70_change_makes_a_branch_and_a_completion(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker
    ) -> None:
        """U-70, M-05: branch `agent/<worker>/<job>`, a commit by the worker, a completion."""
        id = jobs.publish("new.txt hello world\nand more words")
        start_worker(WRITES, "--drain")
        branch = f"agent/w1/{id}"
        (entry,) = jobs.completions()
        assert (entry["branch"], entry["task"], entry["target"]) == (branch, id, "main")
        assert entry["head"] == git(repo, "rev-parse", branch)
        assert git(repo, "show", f"{branch}:new.txt") == "hello world"
        log = git(
            repo, "log", "-1", "--format=%an <%ae>|%cn|%s|%(trailers:key=Task,valueonly)", branch
        )
        assert log.strip() == f"w1 <w1@ackbus.invalid>|w1|new.txt hello world|{id}"
        assert git(repo, "rev-parse", f"{branch}^") == git(repo, "rev-parse", "main")
        task = jobs.tasks.get(id)
        assert (task.state, task.requester, task.worker) == ("APPROVED", "me", "w1")
        assert jobs.states() == ["succeeded"]

    def test_u_70_job_without_change_makes_neither(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker
    ) -> None:
        """U-70, pitfall: "done" with nothing committed. The job ends, the task is cancelled."""
        id = jobs.publish("think about it")
        start_worker("cat", "--drain")
        task = jobs.tasks.get(id)
        assert (task.state, task.reason) == (
            "CANCELLED",
            "no change: the program has left nothing to commit",
        )
        assert jobs.states() == ["succeeded"]
        assert jobs.completions() == []
        assert trees(repo) == []

    def test_u_70_chat_makes_neither(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker, run_bus: RunBus
    ) -> None:
        """U-70: a job of another kind gets the files, and what it says is the result."""
        jobs.publish("what is in first.txt?", kind="chat")
        start_worker("cat >/dev/null; cat first.txt; touch more; git status; true", "--drain")
        assert jobs.states() == ["succeeded"]
        assert jobs.tasks.list() == []
        assert git(repo, "branch", "--list") == "* main"
        shown = json.loads(run_bus("job", "show", "1", "--json").out)
        assert "one" in json.dumps(shown)
        assert "not a git repository" in json.dumps(shown)

    def test_program_may_commit_by_itself(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker
    ) -> None:
        """Its commits stay its own; the rest is committed on top of them."""
        jobs.publish("x")
        script = """
        echo a >a; git add a; git -c user.name=agent -c user.email=a@b commit -q -m mine
        echo b >b
        """
        start_worker(script, "--drain", "--author", "Ann <ann@example.org>")
        (entry,) = jobs.completions()
        log = git(repo, "log", "--format=%an: %s", f"main..{entry['head']}")
        assert log.splitlines() == ["Ann: x", "agent: mine"]

    def test_hooks_and_signing_ask_nobody(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker
    ) -> None:
        """A hook that fails or waits, and a key that wants a passphrase, don't stop the commit."""
        hook = repo / ".git" / "hooks" / "pre-commit"
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
        git(repo, "config", "commit.gpgSign", "true")
        jobs.publish("a b")
        start_worker(WRITES, "--drain")
        assert len(jobs.completions()) == 1

    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            ("git switch -q -c other; echo a >a", "its work tree is on branch 'other', not on"),
            ("git checkout -q --detach; echo a >a", "its work tree is on no branch, not on"),
            (
                """
                echo a >first.txt; git commit -qam a; git switch -q -c o HEAD~1
                echo b >first.txt; git commit -qam b; git switch -q -; git merge o; true
                """,
                "a merge is under way in its work tree",
            ),
            (
                INNER,
                "its work tree contains other repositories: inner; git would commit none",
            ),
            (
                f"{INNER}; git add . 2>/dev/null; git commit -qm all",
                "its work tree contains other repositories: inner; git would commit none",
            ),
        ],
    )
    def test_tree_that_can_not_be_committed_is_told(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker, script: str, reason: str
    ) -> None:
        """Detached, on another branch, in a merge: the attempt fails, and says why."""
        jobs.publish("x", task="odd")
        start_worker(script, "--once")
        task = jobs.tasks.get("odd")
        assert (task.state, task.attempt) == ("ASSIGNED", 2)
        assert task.reason is not None
        assert task.reason.startswith(reason)
        assert jobs.completions() == []


class TestTrees:
    """Each job has a tree of its own, which goes after the work."""

    def test_u_69_jobs_in_parallel_have_a_tree_each(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker
    ) -> None:
        """U-69: 5 parallel jobs: isolated trees, removed after; what each wrote is its own."""
        ids = [jobs.publish(f"file-{n} of {n}") for n in range(5)]
        pwd = repo / "pwd.out"
        waits = f'while test $(wc -l <"{pwd}") -lt 5; do sleep 0.02; done'
        script = f'{WRITES}; pwd >>"{pwd}"; {waits}'
        running = [start_worker(script, "--once", worker=f"w{n}", wait=False) for n in range(5)]
        assert [each.wait(120) for each in running] == [0] * 5
        assert len(set(pwd.read_text().split())) == 5
        assert trees(repo) == []
        heads = {str(entry["task"]): str(entry["head"]) for entry in jobs.completions()}
        assert set(heads) == set(ids)
        for n, id in enumerate(ids):
            assert git(repo, "diff", "--name-only", "main", heads[id]) == f"file-{n}"

    def test_u_69_orphans_of_a_killed_worker_are_cleaned_at_the_start(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker
    ) -> None:
        """U-69: kill -9 while it works; a worker of the name begins, and goes on in its tree."""
        jobs.publish("x", task="t")
        stays = f'echo half >half; touch "{repo}/up.out"; exec sleep 600'
        first = start_worker(stays, wait=False)
        wait_until((repo / "up.out").exists)
        first.kill()
        first.wait()
        (tree,) = trees(repo)
        start_worker("cat half >whole", "--drain")
        task = jobs.tasks.get("t")
        assert (task.state, task.attempt, task.path) == ("APPROVED", 2, tree)
        assert task.head is not None
        names = git(repo, "diff", "--name-only", "main", task.head)
        assert names.splitlines() == ["half", "whole"]
        assert trees(repo) == []
        assert jobs.states() == ["succeeded"]
        assert len(jobs.completions()) == 1

    def test_tree_of_a_task_that_failed_is_kept_at_a_ref(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker
    ) -> None:
        """Pitfall: commits deleted by a clean-up. Its files are in refs/ackbus/rescue."""
        jobs.publish("x", task="t")
        start_worker("echo precious >file; exit 78", "--drain")
        task = jobs.tasks.get("t")
        assert (task.state, task.reason) == ("FAILED", "command exited with code 78")
        assert trees(repo) == []
        (ref,) = git(repo, "for-each-ref", "--format=%(refname)", "refs/ackbus/rescue").split()
        assert git(repo, "show", f"{ref}:file") == "precious"

    def test_setup_and_a_kept_tree(self, jobs: Jobs, repo: Path, start_worker: RunWorker) -> None:
        jobs.publish("x", task="t")
        options = ("--drain", "--keep-tree", "--setup", "sh -c 'echo ready >set-up'")
        start_worker("cp set-up copy", *options)
        (tree,) = trees(repo)
        assert (Path(tree) / "copy").read_text() == "ready\n"

    def test_set_up_is_a_line_for_the_shell(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker
    ) -> None:
        """Item 23: `touch one && touch two` made a file `&&`, which was committed."""
        jobs.publish("x", task="t")
        start_worker("true", "--drain", "--setup", "touch one && touch 'two words'")
        (entry,) = jobs.completions()
        assert git(repo, "diff", "--name-only", "main", str(entry["head"])).splitlines() == [
            "one",
            "two words",
        ]

    def test_set_up_in_python_is_a_line_or_words(self, bus: Bus, jobs: Jobs, repo: Path) -> None:
        given: dict[str, str | tuple[str, ...]] = {
            "line": "echo one two >set-up",
            "words": ("sh", "-c", 'echo "$0" >set-up', "one two"),
        }
        for name, setup in given.items():
            jobs.publish("x", task=name)
            worker(bus, repo, "true", trees={"setup": setup}).run(drain=True)
            assert git(repo, "show", f"{jobs.tasks.get(name).head}:set-up") == "one two"


class TestEnds:
    """The end of a program, and its meaning for the job and the task."""

    def test_failure_begins_the_next_attempt_with_its_reason(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker
    ) -> None:
        """Three attempts, each a job; the third is told why the second failed."""
        jobs.publish("mend it", task="t")
        script = f'cat >>"{repo}/prompts.out"; echo "no luck"; exit 1'
        start_worker(script, "--drain")
        task = jobs.tasks.get("t")
        assert (task.state, task.attempt) == ("FAILED", 3)
        assert jobs.states() == ["failed"] * 3
        told = "This is attempt 3. The one before it ended: command exited with code 1: no luck"
        assert told in (repo / "prompts.out").read_text()
        assert [m.type for m in jobs.bus.read(type="task_failed")] == ["task_failed"]

    def test_u_68_transient_failure_is_tried_again_then_the_worker_rests(
        self, jobs: Jobs, bus: Bus, repo: Path
    ) -> None:
        """U-68: an always failing transient runtime: 2 attempts, then offline for a while."""
        jobs.publish("x", task="t")
        count = repo / "count.out"
        found = worker(
            *(bus, repo, f'echo run >>"{count}"; exit 75'),
            retries=AttemptRule(2, 1),
            cooldown_ms=3_600_000,
        )
        thread = threading.Thread(target=found.run)
        thread.start()
        wait_until(lambda: (beat := bus.heartbeats.get("w1")) and beat.status == "offline")
        assert len(count.read_text().split()) == 2
        task = jobs.tasks.get("t")
        assert (task.state, task.attempt) == ("ASSIGNED", 2)
        assert jobs.states() == ["failed", "queued"]  # for another worker, at once
        found.stop()
        thread.join(30)
        assert not thread.is_alive()

    def test_u_68_permanent_failure_has_one_attempt(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker
    ) -> None:
        """U-68: a permanent error: 1 attempt."""
        jobs.publish("x", task="t")
        start_worker(f'echo run >>"{repo}/count.out"; exit 78', "--drain")
        assert (repo / "count.out").read_text() == "run\n"
        assert jobs.tasks.get("t").state == "FAILED"
        assert jobs.states() == ["failed"]

    def test_u_68_program_that_is_gone_costs_no_job(
        self, jobs: Jobs, bus: Bus, repo: Path, tmp_path: Path
    ) -> None:
        """U-68: the warm-up: 3 attempts, then offline; the job waits, and is done when it is back.

        Else each job in the queue would fail for good while a program is updated.
        """
        jobs.publish("new.txt hello", task="t")
        program = tmp_path / "agent"
        found = worker(
            *(bus, repo, ""),
            program=AgentProgram((str(program),)),
            warm_up=AttemptRule(3, 1),
            cooldown_ms=1_000,
        )
        thread = threading.Thread(target=found.run)
        thread.start()
        wait_until(lambda: (beat := bus.heartbeats.get("w1")) and beat.status == "offline")
        assert "queued" in jobs.states()
        assert jobs.tasks.list() == []
        program.write_text(f"#!/bin/sh\n{WRITES}\n")
        program.chmod(0o755)
        wait_until(lambda: jobs.states() == ["succeeded"])
        assert jobs.tasks.get("t").attempt == 1
        found.stop()
        thread.join(30)

    def test_u_68_program_that_is_gone_ends_a_worker_that_drains(
        self, jobs: Jobs, bus: Bus, repo: Path
    ) -> None:
        """U-68: after the attempts of the warm-up, with what to do."""
        jobs.publish("x", task="t")
        program = AgentProgram(("no-such-program",))
        found = worker(bus, repo, "", program=program, warm_up=AttemptRule(3, 1))
        with pytest.raises(Refused, match="no-such-program is not there"):
            found.run(drain=True)
        assert jobs.states() == ["queued"]

    def test_time_is_up(self, jobs: Jobs, repo: Path, start_worker: RunWorker) -> None:
        jobs.publish("x", task="t", executionBudgetMs=300)
        start_worker("sleep 600", "--once")
        task = jobs.tasks.get("t")
        assert (task.attempt, task.reason) == (2, "timed out after 0.3 seconds")
        assert jobs.states() == ["timed_out", "queued"]

    @pytest.mark.parametrize(
        ("payload", "error"),
        [
            ({"task": "../x"}, "task name '../x' must be"),
            ({"task": 7}, "task must be text, not 7"),
            ({"review": "maybe"}, "review must be none, required, other, not 'maybe'"),
            ({"depends_on": "a"}, "depends_on must be a list of tasks"),
        ],
    )
    def test_job_with_a_wrong_field_fails_and_names_it(
        self,
        jobs: Jobs,
        start_worker: RunWorker,
        run_bus: RunBus,
        payload: dict[str, object],
        error: str,
    ) -> None:
        jobs.publish("x", **payload)
        start_worker("true", "--drain")
        assert jobs.states() == ["failed"]
        assert error in json.loads(run_bus("job", "show", "1", "--json").out)["error"]

    def test_job_that_comes_too_early_waits_for_what_it_depends_on(
        self, jobs: Jobs, start_worker: RunWorker
    ) -> None:
        """No attempt is lost by it: it is planned, and comes again when the other has landed."""
        jobs.publish("x", task="lexer")
        jobs.publish("y", task="parser", depends_on=["lexer"])
        start_worker("touch file", "--drain")
        assert [job.task for job in jobs.tasks.planned()] == ["parser"]
        assert jobs.states() == ["succeeded"] * 2
        jobs.tasks.land("lexer", attempt=1, agent="integrator", commit="1" * 40)
        start_worker("touch other", "--drain")
        assert (jobs.tasks.get("parser").state, jobs.tasks.get("parser").attempt) == ("APPROVED", 1)
        jobs.publish("z", depends_on=["no-such-task"])
        start_worker("true", "--drain")
        assert jobs.states()[-1] == "failed"

    def test_base_that_is_gone_is_tried_again_then_dead(
        self, jobs: Jobs, start_worker: RunWorker, run_bus: RunBus
    ) -> None:
        """Q-23: a job that can't be begun waits, and is a dead letter in the end."""
        jobs.publish("x", base="no-such-branch")
        start_worker("true", "--once")
        shown = json.loads(run_bus("job", "list", "--queue", "jobs", "--json").out)
        assert (shown["state"], shown["attempt"]) == ("queued", 2)
        assert "'no-such-branch' is no commit" in shown["error"]


class TestHolding:
    """One holder: state and token are checked at the start and before the end."""

    def test_job_that_comes_again_redoes_nothing(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker
    ) -> None:
        """Pitfall: a restarted agent that redoes closed work."""
        script = f'{WRITES}; echo run >>"{repo}/count.out"'
        jobs.publish("a b", task="t")
        start_worker(script, "--drain")
        jobs.publish("a c", task="t")
        start_worker(script, "--drain", worker="w2")
        assert (repo / "count.out").read_text() == "run\n"
        assert jobs.states() == ["succeeded"] * 2
        assert len(jobs.completions()) == 1

    def test_cancelled_task_ends_its_program(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker, run_bus: RunBus
    ) -> None:
        """A late holder changes no state and no ref; its files are kept at a ref."""
        jobs.publish("x", task="t")
        script = f'echo half >half; touch "{repo}/up.out"; exec sleep 600'
        running = start_worker(script, "--once", wait=False)
        wait_until((repo / "up.out").exists)
        assert run_bus("task", "cancel", "t", "--agent", "me").code == 0
        assert running.wait(30) == 0
        assert jobs.tasks.get("t").state == "CANCELLED"
        assert jobs.states() == ["succeeded"]
        assert jobs.completions() == []
        branch = jobs.tasks.get("t").branch
        assert git(repo, "rev-parse", branch) == git(repo, "rev-parse", "main")
        assert git(repo, "for-each-ref", "refs/ackbus/rescue") != ""

    def test_cancelled_job_ends_its_program(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker, run_bus: RunBus
    ) -> None:
        jobs.publish("x", task="t")
        running = start_worker(f'touch "{repo}/up.out"; exec sleep 600', "--once", wait=False)
        wait_until((repo / "up.out").exists)
        assert run_bus("job", "cancel", "1").code == 0
        assert running.wait(30) == 0
        assert jobs.states() == ["cancelled"]
        assert jobs.completions() == []

    def test_stopped_worker_hands_its_job_back_and_goes_on_later(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker
    ) -> None:
        """SIGTERM: no attempt is lost by it, of the job or of the task."""
        jobs.publish("x", task="t")
        script = f'echo half >half; touch "{repo}/up.out"; exec sleep 600'
        running = start_worker(script, wait=False)
        wait_until((repo / "up.out").exists)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
        assert jobs.states() == ["queued"]
        start_worker("cp half whole", "--drain")
        task = jobs.tasks.get("t")
        assert (task.state, task.attempt) == ("APPROVED", 1)
        assert jobs.states() == ["succeeded"]

    def test_program_is_told_what_an_earlier_run_has_left(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker
    ) -> None:
        """Promise 5: killed after its commit and before it is done: it need not begin again."""
        jobs.publish("x", task="t")
        script = f"""
        cat >"{repo}/$BUS_TASK_COMMITS.out"
        test "$BUS_TASK_COMMITS" = 1 && exit
        echo one >one; git add one; git commit -qm one; echo half >half
        touch "{repo}/up.out"; exec sleep 600
        """
        first = start_worker(script, wait=False)
        wait_until((repo / "up.out").exists)
        first.kill()
        first.wait()
        start_worker(script, "--drain")
        base = jobs.tasks.get("t").base[:12]
        assert (repo / "0.out").read_text() == "x"
        told = (repo / "1.out").read_text()
        assert f"The branch has 1 commit of an earlier run; see git log {base}..HEAD" in told
        assert "An earlier run has left this in the work tree: unknown to git: half" in told
        assert jobs.tasks.get("t").state == "APPROVED"

    def test_second_worker_of_a_name_is_refused(
        self, jobs: Jobs, repo: Path, start_worker: RunWorker, run_bus: RunBus
    ) -> None:
        start_worker("true", wait=False)
        wait_until(lambda: jobs.bus.heartbeats.get("w1"))
        refused = run_bus("task", "work", "--worker", "w1", "--", "true")
        assert refused.code == 3
        assert "worker 'w1' runs already: process" in refused.err

    def test_tree_in_which_somebody_works_is_waited_for(
        self, jobs: Jobs, bus: Bus, repo: Path
    ) -> None:
        """Pitfall: live trees reaped. A program that outlives its worker keeps others out."""
        jobs.publish("x", task="t")
        first = worker(bus, repo, "exit 1", trees={"keeps": True})
        first.run(once=True)
        with subprocess.Popen(["sleep", "600"], cwd=jobs.tasks.get("t").path) as stranger:
            second = worker(bus, repo, WRITES, worker="w2")
            thread = threading.Thread(target=second.run, kwargs={"once": True})
            thread.start()
            wait_until(lambda: "running" in jobs.states())
            assert jobs.tasks.get("t").state == "ASSIGNED"
            stranger.kill()
        thread.join(30)
        assert jobs.tasks.get("t").state == "APPROVED"


def test_question_is_answered_and_the_program_goes_on(
    jobs: Jobs, repo: Path, start_worker: RunWorker, run_bus: RunBus
) -> None:
    """Pitfall: a prompt that waits for somebody. `bus task block` asks, and the answer comes."""
    jobs.publish("x", task="t")
    script = """
    grep -A1 'You asked' >answer && exit 0
    bus task block "$BUS_TASK" 'which colour?' --deadline 1h
    """
    running = start_worker(script, "--once", wait=False)
    wait_until(lambda: jobs.tasks.list() and jobs.tasks.get("t").blocked)
    wait_until(lambda: (beat := jobs.bus.heartbeats.get("w1")) and beat.status == "blocked")
    assert run_bus("task", "answer", "t", "blue", "--agent", "me").code == 0
    assert running.wait(30) == 0
    task = jobs.tasks.get("t")
    assert (task.state, task.attempt) == ("APPROVED", 1)
    assert task.head is not None
    answer = git(repo, "show", f"{task.head}:answer")
    assert answer == "You asked: which colour?\nThe answer: blue"


def test_path_of_a_program_is_that_of_the_folder_of_the_worker(
    jobs: Jobs, repo: Path, run_bus: RunBus
) -> None:
    """The program runs in a work tree, where no such file is."""
    program = repo / "agent.out"
    program.write_text(f"#!/bin/sh\n{WRITES}\n")
    program.chmod(0o755)
    jobs.publish("new.txt hello", task="t")
    run_bus("task", "work", "--worker", "w1", "--drain", "--", "./agent.out")
    task = jobs.tasks.get("t")
    assert task.head is not None, task
    assert git(repo, "show", f"{task.head}:new.txt") == "hello"


def test_program_is_told_its_task(jobs: Jobs, repo: Path, start_worker: RunWorker) -> None:
    """Its environment names bus, task, token, branch and base; its scratch folder goes after it."""
    jobs.publish("x", task="t")
    script = """
    env | grep ^BUS_ | sort >env; echo junk >"$BUS_TASK_SCRATCH/junk"
    bus task heartbeat "$BUS_TASK" >/dev/null
    """
    start_worker(script, "--drain", "--ports", "42000-42009")
    task = jobs.tasks.get("t")
    assert task.head is not None
    told = dict(line.split("=", 1) for line in git(repo, "show", f"{task.head}:env").splitlines())
    assert told["BUS_TASK"] == "t"
    assert told["BUS_AGENT"] == "w1"
    assert told["BUS_TASK_BRANCH"] == task.branch
    assert told["BUS_TASK_BASE"] == task.base == git(repo, "rev-parse", "main")
    assert told["BUS_TASK_TOKEN"] == str(task.token)
    assert told["BUS_TASK_ATTEMPT"] == "1"
    assert 42000 <= int(told["BUS_TASK_PORT"]) <= 42009
    assert not os.path.exists(told["BUS_TASK_SCRATCH"])
    assert not [lease for lease in jobs.bus.leases.list() if lease.name.startswith("port.")]


def test_program_is_in_the_trace_of_its_job(
    bus: Bus, jobs: Jobs, repo: Path, start_worker: RunWorker
) -> None:
    """Q-22: with a span of its own; and so is the completion."""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    enter(bus, Draft("task.job", {"prompt": "x"}, from_agent="me", headers=headers))
    start_worker('printf %s "$TRACEPARENT" > trace.txt', "--drain")
    (completion,) = bus.read(type="task.completion")
    found = git(repo, "show", f"{completion.payload['branch']}:trace.txt")
    assert (found[3:35], found[36:52] != "00f067aa0ba902b7") == (trace, True)
    assert str(completion.headers["traceparent"])[3:35] == trace


def test_port_is_a_lease(bus: Bus) -> None:
    """Pitfall: port clashes by scan-then-bind. Two tasks never get one port, nor a taken one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        ports = Ports(taken, taken + 2)
        got = [ports.take(bus, f"t{n}", f"w{n}", 60.0)[0] for n in range(2)]
    assert sorted(got) == [taken + 1, taken + 2]
    assert str(Ports.read("42000-42009")) == "Ports(first=42000, last=42009)"


def test_u_47_output_is_stored_while_the_program_runs(
    jobs: Jobs, repo: Path, start_worker: RunWorker
) -> None:
    """U-47: a line shows before the program ends, with its stream and number."""
    jobs.publish("x", task="t")
    script = f'echo x; echo x; echo y >&2; while ! test -e "{repo}/go.out"; do sleep 0.02; done'
    running = start_worker(script, "--once", wait=False)
    output = JobOutput.of(jobs.bus)
    wait_until(lambda: len(output.after(1)) == 2)
    told = [(line.stream, line.number, line.text) for line in output.after(1)]
    assert sorted(told) == [("stderr", 1, "y"), ("stdout", 1, "x")]
    (repo / "go.out").touch()
    assert running.wait(30) == 0


def test_u_43_own_job_goes_first(jobs: Jobs, repo: Path, start_worker: RunWorker) -> None:
    """U-43: a worker takes the job that is meant for it before others, and none of another's."""
    jobs.publish("a any")
    for name in ("w1", "w2"):
        own = work_headers(for_worker=name)
        payload = {"prompt": f"{name} own"}
        enter(
            jobs.bus,
            Draft("task.job", payload, from_agent="me", to_agent="tasks", headers=own),
        )
    start_worker(f'{WRITES}; echo "$name" >>"{repo}/order.out"', "--drain", worker="w2")
    assert (repo / "order.out").read_text().split() == ["w2", "a"]
    assert jobs.states() == ["succeeded", "queued", "succeeded"]
