"""Triggers: one command of a plugin, beside all routes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, Field

from ...automation.jobs.job_request import JobRequest
from ...automation.jobs.plugin_run import HANDLE
from ...automation.jobs.submission import Submission
from ...schema.errors import NotFound
from ..access.errors import Forbidden
from ..access.principals import Scope
from ..api.common import TheBus
from .common import (
    PayloadGiven,
    PluginName,
    PluginReader,
    TheConfig,
    guarded_router,
    problems,
)

router = guarded_router("triggers")

CommandName = Annotated[str, Path(min_length=1, max_length=128, description="Its command.")]

#: The type of the event that a `handle` is told of.
_TRIGGER = "api.trigger"


class Accepted(BaseModel):
    """The job of a trigger, which waits for its turn."""

    job_id: str = Field(description="Its id, for `/job/{job_id}`.")
    status: str = Field(examples=["queued"])
    plugin: str
    command: str


@router.post(
    "/plugin/{plugin}/{command}",
    status_code=202,
    response_model=Accepted,
    responses=problems(404, 413, 415, 429),
)
def trigger(
    plugin: PluginName,
    command: CommandName,
    bus: TheBus,
    config: TheConfig,
    who: PluginReader,
    given: PayloadGiven | None = None,
) -> dict[str, Any]:
    """Run a command of a plugin: exactly one job, whose events no route or pipeline follows.

    A command of the type `read` asks for `plugin:ro`, any other one for `plugin:rw`.
    """
    found = config.plugins.get(plugin)
    known = None if found is None else found.manifest.commands.get(command)
    if known is None:
        raise NotFound(f"there is no command {command!a} of a plugin {plugin!a}")
    if known.type != "read" and not who.may(Scope.PLUGIN_RW):
        raise Forbidden(f"this token has no scope {Scope.PLUGIN_RW.value!r}")
    payload = (given.payload if given else None) or {}
    event = {"type": _TRIGGER} if command == HANDLE else None
    request = JobRequest(
        plugin=plugin, command=command, payload=payload, submitted_by="api", event=event
    )
    done = Submission(bus).submit(request)
    return {"job_id": done.job_id, "status": "queued", "plugin": plugin, "command": command}
