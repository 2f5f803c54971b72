"""Tokens: who is let in, for what, and as whom."""

import json
import subprocess
from collections import deque
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from ackbus import Bus, Queue
from ackbus.bus.signing import Keyring
from ackbus.errors import InvalidInput, NotFound, Refused
from ackbus.schema.queries import file_of
from ackbus.server.access.tokens import Scope, Tokens

from ..conftest import RunBus
from .conftest import BUS, Serve, problem

RW, RO = Scope.MESSAGES_RW, Scope.MESSAGES_RO
MESSAGE = {"type": "t", "from": "a"}


@pytest.fixture
def tokens(bus: Bus) -> Tokens:
    return Tokens.of(bus)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


# Over HTTP.


def test_without_tokens_the_users_programs_are_let_in(client: httpx.Client) -> None:
    """U-29: no token configured is open, as the file is to who can open it."""
    assert client.post("/v1/messages", json=MESSAGE).status_code == 201


def test_from_the_first_token_on_nobody_is_let_in_without(
    client: httpx.Client, tokens: Tokens, bus: Bus
) -> None:
    token = tokens.create("ci", [RW])
    for headers in ({}, bearer("wrong"), bearer(token[:-1] + "x"), {"Authorization": token}):
        response = client.post("/v1/messages", json=MESSAGE, headers=headers)
        problem(response, 401, "unauthorized")
        assert response.headers["WWW-Authenticate"] == "Bearer"
    assert bus.log.newest_seq() == 0
    assert client.post("/v1/messages", json=MESSAGE, headers=bearer(token)).status_code == 201


def test_scope_bounds_what_a_token_is_good_for(client: httpx.Client, tokens: Tokens) -> None:
    reader, worker = tokens.create("r", [RO]), tokens.create("w", [Scope.WORK_RW])
    assert client.get("/v1/messages", headers=bearer(reader)).status_code == 200
    for token in (reader, worker):
        response = client.post("/v1/messages", json=MESSAGE, headers=bearer(token))
        assert "messages:rw" in problem(response, 403, "forbidden")
    problem(client.get("/v1/messages", headers=bearer(worker)), 403, "forbidden")


def test_sender_cannot_be_forged(client: httpx.Client, tokens: Tokens, bus: Bus) -> None:
    """A token that is bound to an agent acts for no other."""
    token = tokens.create("a", [RW], agent="a")
    forged = client.post("/v1/messages", json=MESSAGE | {"from": "b"}, headers=bearer(token))
    assert "'b'" in problem(forged, 403, "forbidden")
    assert bus.log.newest_seq() == 0
    assert client.post("/v1/messages", json=MESSAGE, headers=bearer(token)).status_code == 201


def test_server_signs_only_for_whom_a_token_is_bound_to(
    client: httpx.Client, tokens: Tokens, bus: Bus, bus_env: dict[str, str]
) -> None:
    """A client may give any name; signing under that name would be forgery."""
    Keyring(f"{bus_env['HOME']}/.config/ackbus/keys").create("lead")
    Queue.create(bus, "work")

    def work(who: str, headers: dict[str, str]) -> None:
        message = {"type": "work", "from": "lead", "payload": who}
        assert client.post("/v1/messages", json=message, headers=headers).status_code == 201
        worker = {"worker": "w", "group": "lead"}
        claimed = client.post("/v1/queues/work/claims", json=worker, headers=headers).json()
        path = f"/v1/claims/{claimed['claims'][0]['token']}/complete"
        replies = {"replies": [{"type": "done", "payload": who}]}
        assert client.post(path, json=replies, headers=headers).status_code == 200

    work("whoever", {})
    work("anybody", bearer(tokens.create("any", [Scope.ADMIN])))
    work("lead", bearer(tokens.create("lead", [RW, Scope.WORK_RW], agent="lead")))
    signed = {(m.type, m.payload) for m in bus.read() if "signature" in m.headers}
    assert signed == {("work", "lead"), ("done", "lead")}


@pytest.mark.slow
def test_in_a_session_a_token_speaks_as_its_agent(
    client: httpx.Client, tokens: Tokens, bus: Bus
) -> None:
    for token, speaker in (
        (tokens.create("a", [RW], agent="a"), "a"),
        (tokens.create("free", [RW]), "client"),
    ):
        path = "/v1/sessions/s/message"
        said = client.post(path, json={"text": "hello"}, headers=bearer(token))
        assert said.status_code == 201, said.text
        assert next(bus.read(after_seq=said.json()["seq"] - 1)).from_agent == speaker


def test_token_that_was_removed_is_no_good_at_once(client: httpx.Client, tokens: Tokens) -> None:
    token, other = tokens.create("a", [RO]), tokens.create("b", [RO])
    assert client.get("/v1/messages", headers=bearer(token)).status_code == 200
    tokens.remove("a")
    problem(client.get("/v1/messages", headers=bearer(token)), 401, "unauthorized")
    assert client.get("/v1/messages", headers=bearer(other)).status_code == 200


def test_to_remove_the_last_token_lets_nobody_in(client: httpx.Client, tokens: Tokens) -> None:
    token = tokens.create("a", [RO])
    assert client.get("/v1/messages", headers=bearer(token)).status_code == 200
    tokens.remove("a")
    problem(client.get("/v1/messages", headers=bearer(token)), 401, "unauthorized")
    problem(client.get("/v1/messages"), 401, "unauthorized")


def test_streams_need_a_token_too(client: httpx.Client, tokens: Tokens) -> None:
    token = tokens.create("w", [Scope.WORK_RW])
    problem(client.get("/v1/events"), 401, "unauthorized")
    problem(client.get("/v1/events", headers=bearer(token)), 403, "forbidden")
    url = str(client.base_url).replace("http", "ws") + "/v1/ws"
    with connect(url) as socket, pytest.raises(ConnectionClosedError, match="show a token"):
        socket.recv()


@pytest.mark.slow
def test_stream_ends_with_its_token(client: httpx.Client, tokens: Tokens, bus: Bus) -> None:
    token, _ = tokens.create("r", [RO]), tokens.create("other", [RO])
    bus.publish("t", from_agent="a")
    url = str(client.base_url).replace("http", "ws") + "/v1/ws?after=0"
    with (
        client.stream("GET", "/v1/events", headers=bearer(token)) as response,
        connect(url, additional_headers=bearer(token)) as socket,
    ):
        socket.recv(timeout=60)  # the token was looked at, which is after the connection
        tokens.remove("r")
        said = []
        for line in response.iter_lines():
            said.append(line)
            if line == "" or line.startswith("data"):  # one for each that came, until it ends
                bus.publish("t", from_agent="a")
        assert ": ended: the token is no longer valid" in said
        with pytest.raises(ConnectionClosedError, match=r"1008.*no longer valid"):
            deque(socket, maxlen=0)


def test_tools_of_agents_need_a_token_too(client: httpx.Client, tokens: Tokens) -> None:
    tokens.create("w", [Scope.WORK_RW])
    problem(client.post("/mcp", json={}), 401, "unauthorized")


def test_who_asks_too_often_is_told_to_wait(serve: Serve) -> None:
    client = serve("--max-rate", "2")
    codes = [client.get("/v1/messages").status_code for _ in range(4)]
    assert codes[:2] == [200, 200]
    assert 429 in codes
    refused = next(
        r for r in iter(lambda: client.get("/v1/messages"), None) if r.status_code == 429
    )
    problem(refused, 429, "too-many-requests")
    assert refused.headers["Retry-After"] == "1"


@pytest.mark.slow
def test_websocket_that_asks_too_often_may_come_back(serve: Serve) -> None:
    client = serve("--max-rate", "0.01")
    assert client.get("/v1/messages").status_code == 200
    url = str(client.base_url).replace("http", "ws") + "/v1/ws"
    with connect(url) as socket, pytest.raises(ConnectionClosedError, match=r"1013.*a second"):
        socket.recv(timeout=60)


def test_who_may_ask_rarely_is_told_how_long_to_wait(serve: Serve) -> None:
    client = serve("--max-rate", "0.01")
    assert client.get("/v1/messages").status_code == 200
    assert 50 < int(client.get("/v1/messages").headers["Retry-After"]) <= 100


@pytest.mark.slow
def test_address_that_others_reach_needs_a_token(run_bus: RunBus, bus_dir: object) -> None:
    ended = run_bus("serve", "--host", "0.0.0.0", "--port", "0")
    assert (ended.code, ended.out) == (3, "")
    assert "bus token create" in ended.err


@pytest.mark.slow
def test_address_that_others_reach_is_served_with_a_warning(
    bus_dir: Path, bus_env: dict[str, str], tokens: Tokens
) -> None:
    """Tokens go over the network as they are."""
    tokens.create("ci", [RO])
    with subprocess.Popen(
        [BUS, "serve", "--host", "0.0.0.0", "--port", "0", "--dir", bus_dir],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=bus_env,
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        url = server.stdout.readline().strip().replace("0.0.0.0", "127.0.0.1")
        try:
            assert "plain HTTP" in server.stderr.readline()
            problem(httpx.get(f"{url}/v1/messages"), 401, "unauthorized")
        finally:
            server.terminate()


def test_page_of_another_site_is_refused(client: httpx.Client, bus: Bus) -> None:
    """Also one whose name was made to lead here (DNS rebinding)."""
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Host": "evil.example"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Dest": "iframe"},  # another port of this machine
    ):
        response = client.post("/v1/messages", json=MESSAGE, headers=headers)
        problem(response, 403, "foreign-origin")
        problem(client.get("/v1/messages", headers=headers), 403, "foreign-origin")
    assert bus.log.newest_seq() == 0


@pytest.mark.slow
@pytest.mark.parametrize("text", ["*", "board.example", "https://a/", "https://A", "https://[", ""])
def test_what_is_no_origin_is_not_allowed(run_bus: RunBus, bus_dir: Path, text: str) -> None:
    """It would be taken, and let in no page."""
    ended = run_bus("serve", "--port", "0", "--allow-origin", text)
    assert (ended.code, ended.out) == (2, "")
    assert "like https://board.example" in ended.err


def test_own_pages_and_allowed_ones_may_ask(serve: Serve) -> None:
    board = "https://board.example"
    client = serve("--allow-origin", board)
    own = client.get("/v1/messages", headers={"Origin": str(client.base_url)})
    assert own.status_code == 200
    other = client.get("/v1/messages", headers={"Origin": board})
    assert other.headers["Access-Control-Allow-Origin"] == board
    assert {"ETag", "Retry-After"} <= set(
        other.headers["Access-Control-Expose-Headers"].split(", ")
    )
    assert "Access-Control-Allow-Origin" not in own.headers
    for name in ("Authorization", "If-None-Match", "Last-Event-ID", "traceparent", "tracestate"):
        leave = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": name}
        asked = client.options("/v1/messages", headers={"Origin": board} | leave)
        assert asked.status_code == 200, name
    long = client.post("/v1/messages", content=b"x" * 18_000_000, headers={"Origin": board})
    problem(long, 413, "content-too-large")
    assert long.headers["Access-Control-Allow-Origin"] == board
    for headers in (
        {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"},  # a link was followed
    ):
        assert client.get("/v1/messages", headers=headers).status_code == 200


# The table.


def test_secret_is_not_in_the_file(tokens: Tokens, bus: Bus) -> None:
    secret = tokens.create("ci", [RW]).rpartition("_")[2]
    (row,) = file_of(bus).rows("SELECT * FROM access_tokens")
    assert all(secret not in str(value) for value in row)


def test_rotated_token_overlaps_and_then_ends(bus_dir: object) -> None:
    now = [1_000_000]
    with Bus.open(bus_dir, clock=lambda: now[0]) as bus:  # type: ignore[arg-type]
        tokens = Tokens.of(bus)
        old = tokens.create("ci", [RW], agent="a")
        new = tokens.rotate("ci", overlap_s=10)
        assert tokens.holder(old) == tokens.holder(new)
        now[0] += 10_000
        with pytest.raises(Exception, match="expired"):
            tokens.holder(old)
        assert tokens.holder(new).agent == "a"


def test_token_expires(bus_dir: object) -> None:
    now = [1_000_000]
    with Bus.open(bus_dir, clock=lambda: now[0]) as bus:  # type: ignore[arg-type]
        token = Tokens.of(bus).create("ci", [RW], ttl_s=5)
        now[0] += 4_999
        assert Tokens.of(bus).holder(token).name == "ci"
        now[0] += 1
        with pytest.raises(Exception, match="expired"):
            Tokens.of(bus).holder(token)


REFUSED: dict[str, tuple[Callable[[Tokens], object], type[Exception]]] = {
    "a name twice": (lambda t: (t.create("a", [RO]), t.create("a", [RO])), Refused),
    "no scope": (lambda t: t.create("a", []), InvalidInput),
    "a bad name": (lambda t: t.create("a b", [RO]), InvalidInput),
    "no time": (lambda t: t.create("a", [RO], ttl_s=0), InvalidInput),
    "too long a time": (lambda t: t.create("a", [RO], ttl_s=1e15), InvalidInput),
    "a bad agent": (lambda t: t.create("a", [RO], agent=""), InvalidInput),
    "rotating none": (lambda t: t.rotate("a", overlap_s=0), NotFound),
}


@pytest.mark.parametrize(("act", "error"), REFUSED.values(), ids=REFUSED)
def test_what_breaks_a_rule_is_refused(
    tokens: Tokens, act: Callable[[Tokens], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        act(tokens)


@pytest.mark.parametrize("text", ["", "bus_", "bus_" + "0" * 16 + "_" + "x" * 43, "é" * 64])
def test_what_is_no_token_is_nobodys(tokens: Tokens, text: str) -> None:
    with pytest.raises(Exception, match="unknown token"):
        tokens.holder(text)


# The commands.


@pytest.mark.slow
def test_commands_make_list_rotate_and_remove_tokens(run_bus: RunBus, tokens: Tokens) -> None:
    made = run_bus("token", "create", "ci", "--scope", "messages:rw", "--agent", "a")
    assert tokens.holder(made.out.strip()).agent == "a"
    listed = run_bus("token", "list")
    assert "messages:rw" in listed.out
    assert listed.out.splitlines()[1].endswith("  yes")
    assert made.out.strip() not in listed.out
    rotated = run_bus("token", "rotate", "ci", "--overlap", "0")
    assert tokens.holder(rotated.out.strip()).name == "ci"
    assert run_bus("token", "create", "ci", "--scope", "admin").code == 3
    removed = run_bus("token", "remove", "ci")
    assert (removed.code, removed.out) == (0, "removed 2 tokens ci\n")
    assert "a running server refuses all requests" in removed.err
    assert "this machine can reach accepts all of them" in removed.err
    assert run_bus("token", "create", "two", "--scope", "messages:ro", "--scope", "work:ro").out
    record = json.loads(run_bus("token", "list", "--json").out)
    assert record["scopes"] == ["messages:ro", "work:ro"]
    assert run_bus("token", "remove", "two").code == 0
    assert run_bus("token", "list").code == 4
    assert run_bus("token", "remove", "ci").code == 4
    assert run_bus("token", "rotate", "ci").code == 4
    assert run_bus("token", "create", "x", "--scope", "root").code == 2
