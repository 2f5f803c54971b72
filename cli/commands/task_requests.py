"""Work for the queues of tasks: request, add."""

from __future__ import annotations

from typing import Annotated

import typer

from ...tasks.control.entries import Entries
from ...tasks.steps.messages import REQUESTS
from ...tasks.steps.planning import NewJob
from ...tasks.steps.tasks import Tasks
from .. import arguments
from ..definition import Commands, optional
from ..options.common import HERE, BusPlace
from ..options.tasks import Actor, Name, PriorityName, priority_of, text_of

commands = Commands()


@commands.command("request", example="bus task request 'Users can search.' --agent ann")
def request(
    prompt: Annotated[
        str, typer.Argument(metavar="PROMPT", help="The request: text, - for stdin, @FILE.")
    ],
    priority: PriorityName = "normal",
    agent: Actor = None,
    place: BusPlace = HERE,
) -> int:
    """Ask a planner for work: 'bus task plan' makes jobs of it.

    Prints the id of the request, with which 'bus trace' shows all that comes of it.
    """
    agent = arguments.sender(agent, "--agent")
    asked = {"prompt": text_of(prompt)}
    with place.open() as bus:
        entry, waits = Entries(bus, REQUESTS).add(
            asked, agent=agent, priority=priority_of(priority)
        )
    place.output.result({"id": entry.id, "seq": entry.message.seq, "place": waits}, entry.id)
    return 0


@commands.command("add", example="bus task add search --prompt 'Add search.' --after index")
def add(
    name: Name,
    prompt: Annotated[
        str,
        typer.Option("--prompt", metavar="TEXT", help="What is to be done: text, - or @FILE."),
    ],
    after: Annotated[
        list[str] | None,
        optional("TASK", "It waits until this has landed; may be repeated.", "--after"),
    ] = None,
    priority: PriorityName = "normal",
    agent: Actor = None,
    place: BusPlace = HERE,
) -> int:
    """Add a task to the queue of jobs: 'bus task work' takes it.

    Exit code 3 when a task has this name.
    """
    agent = arguments.sender(agent, "--agent")
    job = NewJob(
        task=name,
        payload={"prompt": text_of(prompt)},
        depends_on=tuple(after or ()),
        priority=priority_of(priority),
    )
    with place.open() as bus:
        tasks = Tasks(bus)
        tasks.plan([job], agent=agent)
        waits = [planned.task for planned in tasks.planned()]
    state = "PLANNED" if name in waits else "QUEUED"
    place.output.result({"task": name, "state": state, "depends_on": list(job.depends_on)}, name)
    return 0
