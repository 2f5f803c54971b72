"""The program that works on a job: its prompt, folder and environment, and its attempts."""

from __future__ import annotations

import os
import select
from dataclasses import replace

from ...git.trees.tree_state import read_state
from ...schema.directory.enclosure import Enclosure
from ...workers.commands.environment import trace_variables
from ..programs.agent_program import environment_of_task, run_program
from ..steps.messages import ANSWER
from .detached_files import files_of
from .job_form import prompt_of_attempt
from .job_means import Interrupted
from .stored_output import StoredOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...subscribers.jobs.claims import Claim
    from ...workers.processes.stop_switch import StopSwitch
    from ..programs.agent_program import ProgramEnd
    from ..records.task import Task
    from .job_form import JobForm
    from .job_means import Means

#: How long a worker that waits looks at once, in seconds.
LOOK_S = 0.5


class JobRun:
    """Runs the program for the job of one claim.

    Args:
        means: what it needs.
        claim: the claim.
        switch: ends the program early.
    """

    def __init__(self, means: Means, claim: Claim, switch: StopSwitch) -> None:
        self._means, self._claim, self._switch = means, claim, switch

    def on_task(self, form: JobForm, task: Task, port: int | None) -> ProgramEnd:
        """Run the program, again after a transient failure, and return how it ended."""
        means = self._means
        there = read_state(means.trees.tree_of(task), task.base)
        prompt = prompt_of_attempt(form, task, there, self._answers(task))
        scratch = means.name.fresh_scratch()
        environment = environment_of_task(task, means.bus.layout.directory, means.worker) | {
            "BUS_JOB_ID": form.id,
            "BUS_TASK_COMMITS": str(there.ahead),
            "BUS_TASK_SCRATCH": scratch,
        }
        if port is not None:
            environment["BUS_TASK_PORT"] = str(port)
        return self._attempts(
            lambda: self._run_once(form, prompt, task.path, scratch, environment, task.task)
        )

    def on_files(self, form: JobForm) -> ProgramEnd:
        """Run the program on files that belong to no branch: what it says is the result."""
        means = self._means
        scratch = means.name.fresh_scratch()
        folder = files_of(means.trees.place, form.base or "HEAD", os.path.join(scratch, "files"))
        environment = {
            "BUS_DIR": means.bus.layout.directory,
            "BUS_AGENT": means.worker,
            "BUS_JOB_ID": form.id,
            "BUS_TASK_SCRATCH": scratch,
            "BUS_CORRELATION_ID": self._claim.message.conversation,
        }
        return self._attempts(
            lambda: self._run_once(form, form.prompt, folder, scratch, environment, form.kind)
        )

    def _attempts(self, run: Callable[[], ProgramEnd]) -> ProgramEnd:
        attempts = self._means.attempts
        while True:
            attempts.begin()
            end = run()
            if end.kind != "transient":
                attempts.end()
                return end
            pause_ms = attempts.failed(self._means.bus.now_ms())
            if pause_ms is None:
                return end
            self._say("waiting", f"again in {pause_ms / 1000:g} s: {end.reason}")
            pause(self._switch, pause_ms / 1000)

    def _run_once(
        self,
        form: JobForm,
        prompt: str,
        folder: str,
        scratch: str,
        environment: dict[str, str],
        what: str,
    ) -> ProgramEnd:
        means = self._means
        file = write_prompt(scratch, prompt) if means.program.wants_file else ""
        self._say("working", what)
        with StoredOutput(means.bus, self._claim.message.seq) as stored:
            end = run_program(
                means.program,
                prompt,
                folder=folder,
                environment={**environment, **trace_variables(self._claim.message)},
                prompt_file=file,
                timeout_s=form.timeout_s or means.timeout_s,
                take=stored.take,
                stop=self._switch,
                supervisors=means.supervisors,
            )
        # The signal that ends the worker may end the program in the same moment.
        is_killed = end.kind == "failed" and end.exit_code == -1
        if is_killed and select.select([self._switch], [], [], LOOK_S)[0]:
            return replace(end, kind="stopped")
        return end

    def _answers(self, task: Task) -> list[tuple[str, str]]:
        """Return the questions about a task with their answers, in order."""
        told = self._means.bus.read(type=ANSWER, conversation=task.correlation_id)
        payloads = [message.payload for message in told if isinstance(message.payload, dict)]
        return [
            (str(each.get("question")), str(each.get("words")))
            for each in payloads
            if each.get("task") == task.task
        ]

    def _say(self, status: str, what: str) -> None:
        self._means.says(status, what)


def pause(switch: StopSwitch, pause_s: float) -> None:
    """Wait.

    Raises:
        Interrupted: the switch was thrown.
    """
    if select.select([switch], [], [], pause_s)[0]:
        raise Interrupted


def write_prompt(scratch: str, prompt: str) -> str:
    """Write a prompt into the scratch folder of a job, and return the path of the file.

    The program of an earlier attempt may have left a link there: that is removed.
    """
    path = os.path.join(scratch, "prompt.md")
    with Enclosure(scratch).spot(path) as spot:
        spot.replace(prompt.encode(errors="surrogateescape"))
    return path
