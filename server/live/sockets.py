"""The same streams over WebSocket: each message a text frame with its line."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

from anyio.lowlevel import checkpoint
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...bus.bus import Bus
from ...bus.log.filters import Wanted
from ...schema.errors import AckbusError, BusBusy, BusUnusable, InvalidInput
from ...schema.message.limits import MAX_SEQ
from ..access.access import GuardedRouter, allowed
from ..access.errors import TooManyRequests
from ..access.rows import Row
from ..access.table import SERVER
from ..client_timeouts import Patience
from ..problems import problem
from ..stream_start import begin_after
from .batches import Batch
from .clients import Client, End
from .feed import Feed

#: The longest reason that a close frame has room for, in bytes.
_MAX_REASON_BYTES = 123

router = GuardedRouter(SERVER, prefix="/v1")
#: The route for paths that no other route has; it comes last.
nowhere = APIRouter()

_Text = Annotated[str, Field(min_length=1)]


class Start(BaseModel):
    """The seq after which a stream begins. Unknown parameters are refused."""

    model_config = ConfigDict(extra="forbid")

    after: Annotated[int, Field(ge=0, le=MAX_SEQ)] | None = None


class _Choice(Start):
    """The filters of a stream: the parameters of `/v1/events`."""

    type: _Text | None = None
    agent: _Text | None = None
    conversation: _Text | None = None


@router.websocket("/ws")
async def follow(socket: WebSocket) -> None:
    """Follow the messages; data from the client is discarded. Parameters as for `/v1/events`."""
    await serve_socket(socket, SERVER["WS /v1/ws"], _Choice())


async def serve_socket(socket: WebSocket, row: Row, default: Start, **filters: Any) -> None:
    """Send the wanted messages until the client disconnects, is dropped, or the server stops.

    Args:
        socket: which is not yet accepted.
        row: what it needs.
        default: its parameters, with the values of those that it leaves out.
        filters: further filters, which it can't change.
    """
    await socket.accept()  # a browser hears no reason before
    bus: Bus = socket.app.state.bus
    feed: Feed = socket.app.state.feed
    patience: Patience = socket.app.state.patience
    try:
        allowed(socket, row)
        asked = type(default).model_validate(default.model_dump() | _parameters(socket))
        wanted = Wanted(**asked.model_dump(exclude={"after"}), **filters)
        begin = begin_after(bus, asked.after, None)
    except (AckbusError, ValidationError) as error:
        await Frames(socket).close(_end(error))
        return
    batches = feed.stream(begin, wanted, keep_alive_s=patience.keep_alive_s)
    await Client(socket, "websocket", Frames(socket), row).follow(batches)


@nowhere.websocket("/{path:path}")
async def find_nothing(socket: WebSocket) -> None:
    """Close a WebSocket of an unknown path with a reason, instead of a misleading 403."""
    detail = (
        f"{socket.url.path}: there is no such WebSocket; there are /v1/ws and those of sessions"
    )
    await socket.send_denial_response(problem(404, "not-found", detail))


def _parameters(socket: WebSocket) -> dict[str, str]:
    given = socket.query_params
    if len(given) < len(given.multi_items()):
        raise InvalidInput("a parameter is given more than once")
    return dict(given)


def _end(error: AckbusError | ValidationError) -> End:
    """Return the end of a stream that didn't begin."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return End.refused(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    if isinstance(error, TooManyRequests):
        return End.for_now(str(error))
    if isinstance(error, BusBusy | BusUnusable):
        return End.failed(str(error))
    return End.refused(str(error))


class Frames:
    """The transport of WebSocket frames to one client."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def send(self, batch: Batch) -> None:
        """Send each message of a batch as a frame."""
        for text in batch.texts:
            await self._socket.send_text(text)
            await checkpoint()  # else nobody hears, before all is written, that the client is gone

    async def close(self, end: End) -> None:
        """Close the connection with the reason."""
        reason = str(end).encode()[:_MAX_REASON_BYTES].decode(errors="ignore")
        await self._socket.close(end.code, reason)

    async def gone(self) -> None:
        """Return when the client has disconnected."""
        with suppress(WebSocketDisconnect, RuntimeError):
            while True:
                await self._socket.receive()  # nothing that a client sends is asked for
