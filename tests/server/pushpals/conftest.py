"""A real server that answers in PushPals' forms, and short forms for its clients."""

from typing import Any

import httpx
import pytest

from ..conftest import Serve


@pytest.fixture
def door(serve: Serve) -> httpx.Client:
    """A client of a server that needs no token, as somebody said."""
    return serve("--pushpals", "--open")


def post(door: httpx.Client, path: str, status: int = 200, /, **body: Any) -> dict[str, Any]:
    """Posts an object, checks the status of the response, and returns its object."""
    return told(door.post(path, json=body), status)


def get(door: httpx.Client, path: str, status: int = 200, /, **query: Any) -> dict[str, Any]:
    """Gets a path, checks the status of the response, and returns its object."""
    return told(door.get(path, params=query), status)


def told(response: httpx.Response, status: int) -> dict[str, Any]:
    """Checks the form of a response, and returns its object."""
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/json"
    body: dict[str, Any] = response.json()
    assert body["ok"] is (status < 400)
    if status >= 400:
        assert body["message"]
    return body
