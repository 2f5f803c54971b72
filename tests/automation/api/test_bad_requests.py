"""Wrong requests: each has the answer of the reference, and none ends in 500."""

import json
import socket
import subprocess
import sysconfig
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackbus import Bus
from ackbus.server.connections import MAX_BODY_BYTES, ClientTimeouts

from ...sizes import size
from ..conftest import Folder
from ..running import OK
from .serving import API, KEYS, Served, api_of, problem

JSON = {"Content-Type": "application/json"}
TRIGGERS = ["/plugin/echo/poll", "/pipeline/later"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("api")
    folder = Folder(path / "config")
    folder.plugin("echo", run=OK)
    folder.write(
        api=API,
        config="""
        include: [api.yaml]
        plugin_roots: [plugins]
        plugins: {echo: {enabled: true, schedules: [{cron: "0 0 1 1 *"}]}}
        pipelines: [{name: later, on: later.please, steps: [{uses: echo.poll}]}]
        """,
    )
    patience = ClientTimeouts(stalled_s=0.3, head_s=5)
    with (
        Bus.init(path / ".worker-state") as bus,
        api_of(bus, folder, patience=patience) as served,
    ):
        yield served


@pytest.fixture(scope="module")
def client(served: Served) -> httpx.Client:
    return served.client()


@pytest.mark.parametrize("path", TRIGGERS)
@pytest.mark.parametrize(
    "body",
    [
        *(b"{", b"[", b"{]", b'"', b"nothing", b"\xff", b'"\xed\xa0\x80"', b'{"payload": {}} {}'),
        *(b"[]", b"5", b'"payload"', b"true", b"[{}]"),
        *(b'{"payload": []}', b'{"payload": "text"}', b'{"payload": 5}', b'{"payload": true}'),
        *(b'{"paylod": {}}', b'{"payload": {}, "more": 1}', b'{"message": "hello"}'),
        *(b'{"payload": {"n": NaN}}', b'{"payload": {"n": 1e999}}', b'{"payload": {"n": 01}}'),
        b'{"payload": {"n": 123456789012345678901234567890}}',
        b'{"payload": {"a": "\\ud800"}}',
        b'{"payload": ' + b'{"a": ' * 100_000 + b"1" + b"}" * 100_001,
        b'{"payload": ' + b"[" * 100_000,
        b"{" + b", ".join(b'"k%d": 1' % n for n in range(10_000)) + b"}",
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_wrong_body_is_a_bad_request_and_begins_nothing(
    served: Served, client: httpx.Client, path: str, body: bytes
) -> None:
    newest = served.bus.log.newest_seq()
    answer = client.post(path, content=body, headers=JSON)
    assert (answer.status_code, answer.json()["status"]) == (400, 400), answer.text
    assert [m.type for m in served.bus.read(after_seq=newest) if m.from_agent == "api"] == []


@pytest.mark.parametrize("path", TRIGGERS)
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application", "", "json", None]
)
def test_a_body_that_is_not_sent_as_json_is_refused(
    client: httpx.Client, path: str, kind: str | None
) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = client.post(path, content=b"{}", headers=headers)
    assert "application/json" in problem(answer, 415, "unsupported-media-type")


def test_a_page_of_another_site_and_a_bus_that_hangs_are_problems_as_all_others_are(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = client.get("/healthz", headers={"Origin": "https://evil.example"})
    assert "evil.example" in problem(foreign, 403, "foreign-origin")
    monkeypatch.setattr("ackbus.server.automation.operations.CHECK_S", 0)
    problem(client.get("/healthz"), 503, "timed-out")


@pytest.mark.parametrize("path", TRIGGERS)
def test_a_body_that_is_too_long_is_refused_before_it_is_there(
    client: httpx.Client, served: Served, path: str
) -> None:
    with connected(served) as wire:
        wire.sendall(head("POST", path, Content_Length=str(MAX_BODY_BYTES + 1)))
        refused = HTTPResponse(wire)
        refused.begin()
        body = json.load(refused)
        assert (refused.status, body["error"]) == (413, body["detail"])

    def pieces() -> Iterator[bytes]:
        yield b'{"payload": {"a": "'
        for _ in range(MAX_BODY_BYTES // 2**20 + 1):
            yield b"a" * 2**20

    try:
        answer = client.post(path, content=pieces(), headers=JSON)
    except httpx.WriteError:  # it is told before all is sent
        return
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/plugin/echo/poll", "POST"),
        ("PUT", "/plugin/echo/poll", "POST"),
        ("DELETE", "/plugin/echo/poll", "POST"),
        ("OPTIONS", "/plugin/echo/poll", "POST"),
        ("TRACE", "/plugin/echo/poll", "POST"),
        ("BREW", "/pipeline/later", "POST"),
        ("POST", "/jobs", "GET"),
        ("POST", "/job/x", "GET"),
        ("POST", "/events", "GET"),
        ("GET", "/system/reload", "POST"),
        ("PATCH", "/config/view", "GET"),
        ("POST", "/healthz", "GET, HEAD"),
        ("DELETE", "/plugins", "GET"),
    ],
)
def test_a_wrong_method_names_those_that_are_there(
    client: httpx.Client, method: str, path: str, allow: str
) -> None:
    answer = client.request(method, path)
    problem(answer, 405, "method-not-allowed")
    assert answer.headers["Allow"] == allow


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", each) for each in ("/nothing", "/plugin", "/job", "/v1/messages", "/metrics")),
        *(("GET", each) for each in ("/job/a/b", "/job/a/tree/b", "/job//tree")),
        *(("POST", each) for each in ("/plugin/echo/poll/more", "/plugin//poll", "/pipeline/a/b")),
        *(("POST", each) for each in ("/plugin/echo%2Fpoll", "/plugin/echo/po%2Fll")),
        *(("POST", each) for each in ("/plugin/%00/poll", "/plugin/echo/%0d%0a", "/plugin/%FF/a")),
        *(
            ("POST", each)
            for each in ("/plugin/Echo/poll", "/plugin/echo/POLL", "/PLUGIN/echo/poll")
        ),
        *(("POST", each) for each in ("/pipeline/%F0%9F%98%80", "/PIPELINE/later")),
        *(("GET", f"/job/{each}") for each in ("1", "claim:1", "'; DROP TABLE jobs; --", "%00")),
        *(("GET", f"/job/{each}/tree") for each in ("nothing", "999999999999999999", "%F0%9F")),
    ],
)
def test_whatever_is_not_there_is_not_found(client: httpx.Client, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.json()["status"]) in ((404, 404), (400, 400)), answer.text


@pytest.mark.parametrize(
    "path",
    [
        *("/pipeline/later?async=maybe", "/pipeline/later?asinc=true", "/plugin/echo/poll?x=1"),
        *("/pipeline/later?async=true&async=true", "/pipeline/" + "x" * 129),
        *("/plugin/" + "x" * 129 + "/poll", "/plugin/echo/" + "x" * 129),
        "/scheduler/jobs/echo/" + "x" * 129 + "/run",
    ],
)
def test_a_wrong_parameter_of_a_trigger_is_a_bad_request(client: httpx.Client, path: str) -> None:
    problem(client.post(path), 400, "invalid-input")


def test_a_page_of_another_site_triggers_nothing(client: httpx.Client) -> None:
    answer = client.post(TRIGGERS[0], headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403


def connected(served: Served) -> socket.socket:
    address = httpx.URL(served.url)
    return socket.create_connection((address.host, address.port or 0), 30)


def head(method: str, path: str, **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: here", f"Authorization: Bearer {KEYS['ADMIN']}"]
    lines += ["Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def test_a_client_that_sends_no_more_is_told_and_dropped(served: Served) -> None:
    with connected(served) as wire:
        wire.sendall(head("POST", TRIGGERS[0], Content_Length="100") + b'{"payload"')
        assert wire.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_leaves_in_the_middle_of_its_body_begins_nothing(
    served: Served, client: httpx.Client
) -> None:
    newest = served.bus.log.newest_seq()
    for _ in range(5):
        with connected(served) as wire:
            wire.sendall(head("POST", TRIGGERS[0], Content_Length="100") + b'{"payload"')
    assert client.get("/healthz").status_code == 200
    assert not list(served.bus.read(after_seq=newest, from_agent="api"))


@pytest.mark.parametrize(
    "sent",
    [
        *(
            b"\x00\x01\x02\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"\x16\x03\x01\x00\xa5",
        ),
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /plugin/echo/poll HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ],
    ids=lambda sent: repr(sent[:20]),
)
def test_what_is_no_http_ends_its_connection_alone(
    served: Served, client: httpx.Client, sent: bytes
) -> None:
    with connected(served) as wire:
        try:
            wire.sendall(sent)
            answer = wire.recv(100)
        except ConnectionError:  # it is closed before all was sent
            answer = b""
    assert not answer.startswith(b"HTTP/1.1 5")
    assert client.get("/healthz").status_code == 200


PARTS = st.sampled_from(
    [
        *(
            "plugin",
            "echo",
            "poll",
            "handle",
            "pipeline",
            "later",
            "job",
            "jobs",
            "job-logs",
            "tree",
        ),
        *("breakers", "reset", "scheduler", "default", "pause", "analytics", "queue", "config"),
        *("view", "openapi.json", "healthz", ".well-known", "..", "", "%00", "%2F", "ü", "x" * 300),
    ]
)
QUERIES = st.dictionaries(
    st.sampled_from(["limit", "status", "plugin", "async", "from", "to", "query", "after", "x"]),
    st.text(max_size=20),
    max_size=3,
)


@pytest.mark.slow
@settings(
    max_examples=size(sample=60, whole=2000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD"]),
    parts=st.lists(PARTS | st.text(max_size=10), max_size=5),
    query=QUERIES,
    body=st.binary(max_size=50) | st.sampled_from([b"", b"{}", b'{"payload": {"a": 1}}']),
    kind=st.sampled_from(["application/json", "text/plain", "application/problem+json"]),
    key=st.sampled_from([*KEYS.values(), "wrong"]),
)
def test_no_request_at_all_ends_in_500(
    client: httpx.Client,
    method: str,
    parts: list[str],
    query: dict[str, str],
    body: bytes,
    kind: str,
    key: str,
) -> None:
    """Streams have no end, and are followed elsewhere."""
    try:
        url = client.base_url.copy_with(path="/" + "/".join(parts), params=query)
    except httpx.InvalidURL:
        return
    headers = {"Content-Type": kind, "Authorization": f"Bearer {key}"}
    answer = client.request(method, url, content=body, headers=headers)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400 and method != "HEAD":
        assert answer.json()["status"] == answer.status_code


#: The document can't tell that a name is of nothing that is there, or that a command might have the
#: name of a document.
SCHEMATHESIS = """
request-timeout = 60
headers = {{ Authorization = "Bearer {token}" }}

[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", "400", "403", "404", "409", "429"]

[[operations]]
include-path-regex = "/openapi.json$"
checks.allow_header_conformance.enabled = false
"""


@pytest.mark.slow
def test_the_api_keeps_to_its_document(served: Served, tmp_path: Path) -> None:
    """All checks of Schemathesis but for the stream, which has no end."""
    config = tmp_path / "schemathesis.toml"
    config.write_text(SCHEMATHESIS.format(token=KEYS["ADMIN"]))
    done = subprocess.run(
        [
            *(Path(sysconfig.get_path("scripts"), "st"), "--config-file", config, "run"),
            *(f"{served.url}/openapi.json", "--phases", "fuzzing,coverage"),
            *("--max-examples", str(size(sample=1, whole=10)), "--seed", "1", "--no-color"),
            *("--exclude-path-regex", "events"),
        ],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout[-8000:]
