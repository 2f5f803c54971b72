"""Cancellation of calls over HTTP: the client disconnects before its response."""

from __future__ import annotations

import asyncio

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..disconnects import until_gone


def while_there(app: ASGIApp) -> ASGIApp:
    """Return an application that is cancelled when its client disconnects.

    Requests have one body, and responses come when all is done. The SDK looks for disconnected
    clients only where it answers in streams.
    """

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        asked, answers = anyio.Event(), anyio.Event()

        async def hear() -> Message:
            message = await receive()
            if not message.get("more_body"):
                asked.set()
            return message

        async def say(message: Message) -> None:
            answers.set()  # from now on there is nothing to cancel
            await send(message)

        async def leave_with_client() -> None:
            await asked.wait()
            await until_gone(receive)
            if not answers.is_set():
                call.cancel()

        with anyio.CancelScope() as call:
            watch = asyncio.create_task(leave_with_client())
            try:
                await app(scope, hear, say)
            finally:
                watch.cancel()

    return watched
