"""The events of plugins and their jobs, as they are stored."""

from __future__ import annotations

from fastapi import Request, Response

from ...bus.log.filters import Wanted
from ..access.table import AUTOMATION
from ..api.common import After, TheBus
from ..live.events import STREAM, EventStream, LastEventId, stream_of
from .common import guarded_router, problems

router = guarded_router("events")

#: The messages of automation: requests for jobs, and events.
_TYPES = "plugin.>"


@router.get(
    "/events", status_code=200, response_class=EventStream, responses=STREAM | problems(409)
)
async def follow_events(
    request: Request,
    bus: TheBus,
    after: After | None = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Follow jobs and events as server-sent events: first those after a seq, then new ones.

    Without `after` it begins with new ones. The id of an event is its message's seq, its data the
    message. A client that comes back with the last id that it has misses nothing.
    """
    wanted = Wanted(_TYPES, None, None)
    return stream_of(request, bus, wanted, after, last_event_id, row=AUTOMATION["GET /events"])
