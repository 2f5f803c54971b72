"""Parameters, dependencies and records that the operations of the API share."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from pydantic import Field

from ..access.access import GuardedRouter
from ..access.table import AUTOMATION
from ..api.common import new_router
from ..problems import documented
from ..records import Given
from .in_force import Current, InForce

PluginName = Annotated[str, Path(min_length=1, max_length=128, description="A plugin.")]


def guarded_router(tag: str) -> APIRouter:
    """Return a router for operations that need a token."""
    return new_router(tag, "", AUTOMATION)


def open_router(tag: str) -> APIRouter:
    """Return a router for operations that need none."""
    return GuardedRouter(AUTOMATION, tags=[tag])


async def in_force(request: Request) -> InForce:
    """Return the configuration in force: one for the whole request."""
    current: Current = request.app.state.current
    return current.get()


TheConfig = Annotated[InForce, Depends(in_force)]


class PayloadGiven(Given):
    """The body of a trigger."""

    payload: dict[str, Any] | None = Field(None, description="What is handed over; none is {}.")


def problems(*more: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems that a guarded operation documents: the common ones, and these."""
    return documented(400, 401, 403, 503, *more)
