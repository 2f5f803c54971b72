"""The listeners of a service, with real sockets and real clients."""

import socket
import threading

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ackbus.schema.errors import AckbusError
from ackbus.server.running import Listeners, ServedApp


def door(name: str, listen: str = "127.0.0.1:0") -> ServedApp:
    async def answer(request: Request) -> Response:
        return PlainTextResponse(name)

    return ServedApp(name, listen, Starlette(routes=[Route("/", answer)]))


def test_each_door_is_served_on_its_address_until_the_end() -> None:
    with Listeners([door("one"), door("two")]) as listeners:
        listeners.start()
        urls = listeners.urls
        assert [httpx.get(urls[name]).text for name in ("one", "two")] == ["one", "two"]
    for url in urls.values():
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)


def test_requests_before_the_start_wait_for_it() -> None:
    with Listeners([door("one")]) as listeners:
        url = listeners.urls["one"]
        address = httpx.URL(url)
        with socket.create_connection((address.host, address.port), 30) as early:
            early.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            listeners.start()
            with early.makefile("rb") as answer:
                assert answer.read().endswith(b"one")


def test_an_address_that_is_taken_refuses_all_and_takes_none() -> None:
    with Listeners([door("one")]) as listeners:
        taken = listeners.urls["one"].removeprefix("http://")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            free = f"127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(AckbusError, match=r"can't listen on 127\.0\.0\.1:"):
            Listeners([door("two", free), door("three", taken)])
        with Listeners([door("two", free)]):
            pass


def test_an_application_that_can_not_start_is_an_error() -> None:
    async def lifespan_of(scope, receive, send):  # type: ignore[no-untyped-def]  # ASGI's own form
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "defect"})

    broken = Starlette()
    broken.router.lifespan = lifespan_of
    with (
        Listeners([ServedApp("broken", "127.0.0.1:0", broken)]) as listeners,
        pytest.raises(AckbusError, match=r"broken can't be served on 127\.0\.0\.1:0"),
    ):
        listeners.start()


def test_what_waits_is_ended_at_the_stop() -> None:
    is_there, is_over = threading.Event(), threading.Event()

    async def wait(request: Request) -> Response:
        is_there.set()
        while not is_over.is_set():
            await anyio.sleep(0.01)
        return PlainTextResponse("ended")

    app = Starlette(routes=[Route("/", wait)])
    answers: list[str] = []
    with Listeners([ServedApp("one", "127.0.0.1:0", app, on_stop=is_over.set)]) as listeners:
        listeners.start()
        url = listeners.urls["one"]
        waiting = threading.Thread(target=lambda: answers.append(httpx.get(url, timeout=60).text))
        waiting.start()
        assert is_there.wait(30)
    waiting.join(30)
    assert answers == ["ended"]


def test_the_end_may_be_told_twice() -> None:
    with Listeners([door("one")]) as listeners:
        listeners.start()
        listeners.close()
        listeners.close()
