"""Access to the API: tokens of the configuration and of the bus, and their scopes."""

import json
from collections.abc import Iterator

import httpx
import pytest

from ackbus import Bus
from ackbus.automation.config.models import TokenConfig
from ackbus.automation.config.values import Secret
from ackbus.schema.message.names import MAX_SEQ
from ackbus.server.access.tokens import Principal, Scope, Tokens
from ackbus.server.automation.access import ConfigTokens

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK
from .serving import API, KEYS, Served, api_of, problem

CONFIG = """
    include: [api.yaml]
    plugin_roots: [plugins]
    plugins: {echo: {enabled: true, schedules: [{every: 1h}]}}
    pipelines: [{name: later, on: later.please, steps: [{uses: echo.poll}]}]
"""


def configured(folder: Folder) -> Folder:
    folder.plugin("echo", run=OK)
    return folder.write(api=API, config=CONFIG)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("api")
    folder = configured(Folder(path / "config"))
    with Bus.init(path / ".worker-state") as bus, api_of(bus, folder) as served:
        yield served


def operations(served: Served) -> Iterator[tuple[str, str, list[str]]]:
    """Every operation: its method, a path that fits, and the scopes that the document names."""
    values = {"plugin": "echo", "command": "poll", "pipeline": "later", "schedule": "default"}
    values["job_id"] = "0198c0de-0000-7000-8000-000000000001"
    for path, found in served.client(None).get("/openapi.json").json()["paths"].items():
        for method, operation in found.items():
            security = operation.get("security", [])
            needed = [scope for each in security for scope in each["BearerAuth"]]
            after = f"?after={MAX_SEQ}" if path == "/events" else ""  # a stream has no end
            yield method, path.format_map(values) + after, needed


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.slow
@pytest.mark.requirement("D-117")
def test_d_117_every_operation_but_the_open_ones_needs_a_token(served: Served) -> None:
    client = served.client(None)
    for method, path, needed in operations(served):
        answer = client.request(method, path)
        assert answer.status_code == (401 if needed else 200), (method, path)
        if needed:
            assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("name", KEYS)
def test_d_120_every_operation_lets_in_those_with_its_scopes(served: Served, name: str) -> None:
    client = served.client(KEYS[name])
    only = Principal("x", frozenset([Scope[name]]))
    for method, path, needed in operations(served):
        may = all(only.may(Scope(each)) for each in needed)
        answer = client.request(method, path)
        assert (answer.status_code != 403) == may, (method, path, answer.text)


def test_d_120_a_right_to_write_has_that_to_read_in_it(served: Served) -> None:
    assert served.client(KEYS["JOBS_RW"]).get("/jobs").status_code == 200
    problem(served.client(KEYS["PLUGIN_RW"]).get("/jobs"), 403, "forbidden")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": KEYS["ADMIN"]},
        {"Authorization": f"Basic {KEYS['ADMIN']}"},
        {"Authorization": f"Bearer {KEYS['ADMIN']}x"},
        {"Authorization": f"Bearer {KEYS['ADMIN'][:-1]}"},
        {"Authorization": f"Bearer {KEYS['ADMIN'].upper()}"},
        {"Authorization": "Bearer bus_0123456789abcdef_" + "x" * 43},
        {"Authorization": b"Bearer \xff\xfe\x80"},
        {"Authorization": "Bearer " + "x" * 8000},
    ],
)
def test_whatever_is_no_token_has_one_answer(
    served: Served, headers: dict[str, str | bytes]
) -> None:
    sent = [
        (name.encode(), v if isinstance(v, bytes) else v.encode()) for name, v in headers.items()
    ]
    with httpx.Client(base_url=served.url) as client:
        answer = client.get("/jobs", headers=sent)
        other = client.get("/jobs")
    problem(answer, 401, "unauthorized")
    assert answer.content == other.content


def test_who_asks_is_asked_before_the_request_is_read(served: Served) -> None:
    client = served.client(None)
    headers = {"Content-Type": "application/json"}
    problem(client.post("/plugin/echo/poll", content=b"{", headers=headers), 401, "unauthorized")
    problem(client.get("/jobs?staus=dead"), 401, "unauthorized")


def test_tokens_of_the_bus_are_tokens_of_the_api(served: Served) -> None:
    tokens = Tokens.of(served.bus)
    runs = tokens.create("runs", [Scope.PLUGIN_RW])
    mails = tokens.create("mails", [Scope.MESSAGES_RW, Scope.WORK_RW])
    everything = tokens.create("all", [Scope.ADMIN])
    assert served.client(runs).post("/plugin/echo/poll").status_code == 202
    problem(served.client(runs).get("/jobs"), 403, "forbidden")
    problem(served.client(mails).post("/plugin/echo/poll"), 403, "forbidden")
    assert served.client(everything).get("/config/view").status_code == 200
    tokens.remove("runs")
    problem(served.client(runs).post("/plugin/echo/poll"), 401, "unauthorized")


@pytest.mark.slow
@pytest.mark.requirement("D-122")
def test_d_122_a_key_that_a_reload_replaces_is_good_no_more(bus: Bus, folder: Folder) -> None:
    """The stream of the old key ends, too."""
    configured(folder)
    with api_of(bus, folder) as served:
        client = served.client()
        assert client.get("/jobs").status_code == 200
        lines: list[str] = []
        with client.stream("GET", "/events") as stream:
            read = stream.iter_lines()
            assert next(read) == "retry: 1000"
            folder.write(api=API.replace('token: "${ADMIN}"', "token: another-key"))
            assert client.post("/system/reload").status_code == 200
            problem(client.get("/jobs"), 401, "unauthorized")
            assert served.client("another-key").get("/jobs").status_code == 200

            def is_over() -> bool:
                served.client("another-key").post("/plugin/echo/poll")
                lines.append(next(read))
                return lines[-1].startswith(": ended")

            wait_until(is_over)
    assert any("the token is no longer valid" in line for line in lines), lines


@pytest.mark.slow
@pytest.mark.requirement("Q-19")
def test_q_19_an_old_key_counts_beside_the_new_one_as_long_as_both_are_there(
    bus: Bus, folder: Folder
) -> None:
    configured(folder)
    old = '- {name: admin, token: "${ADMIN}", scopes: ["*"]}'
    new = old.replace("${ADMIN}", "new-key")
    with api_of(bus, folder) as served:
        clients = [served.client(), served.client("new-key")]

        def statuses() -> list[int]:
            return [client.get("/config/view").status_code for client in clients]

        assert statuses() == [200, 401]
        folder.write(api=API.replace(old, f"{old}\n          {new}"))
        assert clients[0].post("/system/reload").status_code == 200
        assert statuses() == [200, 200]
        folder.write(api=API.replace(old, new))
        assert clients[0].post("/system/reload").status_code == 200
        assert statuses() == [401, 200]


@pytest.mark.slow
def test_d_119_the_scopes_of_a_token_are_those_of_its_file(
    bus: Bus, folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that was edited, and not sealed, is refused as a whole."""
    folder.plugin("echo", run=OK)
    scopes = folder.write_as("scopes/reader.json", json.dumps({"scopes": ["jobs:ro"]}))
    folder.write(
        config="""
        plugin_roots: [plugins]
        plugins: {echo: {enabled: true}}
        api: {enabled: true, listen: "127.0.0.1:0"}
        tokens: [{name: reader, key: "${JOBS_RO}", scopes_file: scopes/reader.json}]
        """
    ).lock()
    with api_of(bus, folder) as served:
        client = served.client(KEYS["JOBS_RO"])
        assert client.get("/jobs").status_code == 200
        problem(client.post("/plugin/echo/poll"), 403, "forbidden")
        scopes.write_text(json.dumps({"scopes": ["*"]}))
        served.running.service.reload()
        wait_until(lambda: "is not as it was sealed" in caplog.text)
        problem(client.post("/plugin/echo/poll"), 403, "forbidden")


@pytest.mark.slow
def test_a_secret_of_a_webhook_is_no_token(bus: Bus, folder: Folder) -> None:
    folder.plugin("echo", run=OK)
    folder.write(
        config="""
        plugin_roots: [plugins]
        plugins: {echo: {enabled: true}}
        api: {enabled: true, listen: "127.0.0.1:0"}
        tokens: [{name: hook, key: "${ADMIN}"}]
        """
    )
    with api_of(bus, folder) as served:
        problem(served.client(KEYS["ADMIN"]).get("/jobs"), 401, "unauthorized")


def test_keys_are_compared_whole_and_an_empty_one_lets_nobody_in() -> None:
    tokens = ConfigTokens(
        [
            TokenConfig(name="a", key=Secret("key"), scopes=("jobs:ro",)),
            TokenConfig(name="b", key=Secret("key"), scopes=("plugin:ro",)),
            TokenConfig(name="c", key=Secret(""), scopes=("*",)),
        ]
    )
    found = tokens.holder(b"key")
    assert found is not None
    assert (found.name, found.scopes) == ("a", {Scope.JOBS_RO, Scope.PLUGIN_RO})
    assert [tokens.holder(text) for text in (b"", b"ke", b"keys", b"key ")] == [None] * 4


def test_key_may_be_any_bytes() -> None:
    """A variable of the environment that is not UTF-8 has them as surrogates."""
    tokens = ConfigTokens([TokenConfig(name="a", key=Secret("k\udcff"), scopes=("*",))])
    assert tokens.holder(b"k\xff") is not None
    assert tokens.holder(b"k") is None
