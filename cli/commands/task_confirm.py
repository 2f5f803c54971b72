"""Confirming a task whose row was lost, and rebuilt from messages."""

from __future__ import annotations

from ...schema.errors import Refused
from ...tasks.board.proof import messages_of_tasks, task_of
from ...tasks.steps.tasks import Tasks
from .. import arguments
from ..definition import Commands
from ..options.common import HERE, BusPlace
from ..options.tasks import Actor, Name, print_task
from ..show.confirmation import Yes, can_ask, confirm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...bus.local_bus import LocalBus
    from ...tasks.records.task import Task

commands = Commands()

#: The fields that a person has to check: they decide how far a forged task would reach.
_BELIEVED = (
    *("state", "attempt", "worker", "repository", "path", "branch", "base", "head", "target"),
    *("review", "reviewer", "requester", "commit_id"),
)


@commands.command("confirm", example="bus task confirm fix-login --agent ann")
def confirm_task(name: Name, agent: Actor = None, yes: Yes = False, place: BusPlace = HERE) -> int:
    """Confirm a task that is unproven: believe what its row says.

    The rows of tasks that were lost come back from messages, which anybody could write ('bus doctor
    --repair'). Such a task is only shown, and may be cancelled, until a person confirms it. Prints
    on stderr what would be believed and who sent the messages, then asks; without a terminal
    nothing is confirmed unless --yes is given.

    Exit code 3 when it is not confirmed.
    """
    agent = arguments.sender(agent, "--agent")
    with place.open() as bus:
        tasks = Tasks(bus)
        task = tasks.get(name)
        if task.unproven:
            for line in _lines_to_confirm(bus, task):
                place.output.note(line)
            if not (yes or can_ask()):
                raise Refused("nothing was changed: look at that, then say --yes")
            confirm(f"believe that of task {name}", yes)
        print_task(place.output, tasks.confirm(name, agent=agent))
    return 0


def _lines_to_confirm(bus: LocalBus, task: Task) -> Iterator[str]:
    """Yield what would be believed, a line each, and the messages that say so."""
    for field in _BELIEVED:
        value = getattr(task, field)
        if value is not None:
            yield f"{field}: {value}"
    for message in messages_of_tasks(bus):
        if task_of(message) == task.task:
            payload = message.payload
            to = payload.get("to") if isinstance(payload, dict) else None
            yield f"said by {message.from_agent} in {message.seq}: {to or message.type}"
