"""Runs that are begun over HTTP: at once, or waited for."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from starlette.requests import Request
from starlette.types import Message

from ackbus import Bus
from ackbus.automation.routes.runs import wait
from ackbus.schema.errors import NotFound
from ackbus.server.automation.triggers import WaitingCallers

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK, response
from .serving import API, KEYS, Served, api_of, problem

pytestmark = pytest.mark.slow

CONFIG = """
    include: [api.yaml]
    plugin_roots: [plugins]
    service: {max_workers: 4}
    plugins: {echo: {enabled: true}, held: {enabled: true}, bad: {enabled: true}}
    pipelines:
      - name: later
        on: later.please
        steps: [{id: first, uses: echo.poll}, {id: second, uses: echo}]
      - name: now
        on: now.please
        execution_mode: synchronous
        steps: [{id: first, uses: echo.poll}, {id: second, uses: echo}]
      - name: failing
        on: failing.please
        execution_mode: synchronous
        steps: [{id: first, uses: echo.poll}, {id: second, uses: bad}]
      - name: held
        on: held.please
        execution_mode: synchronous
        timeout: 30s
        steps: [{id: only, uses: held.poll}]
      - name: brief
        on: brief.please
        execution_mode: synchronous
        timeout: 50ms
        steps: [{id: only, uses: held.poll}]
      - name: wide
        on: wide.please
        execution_mode: synchronous
        steps: [{split: [{id: a, uses: echo.poll}, {id: b, uses: echo.poll}]}]
"""


def with_setting(text: str) -> str:
    """The settings of the API with one more."""
    return API.replace("enabled: true", f"enabled: true\n      {text}")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The file that jobs of the plugin `held` wait for."""
    return tmp_path / "gate"


@pytest.fixture
def configured(folder: Folder, gate: Path) -> Folder:
    folder.plugin("echo", run=OK)
    folder.plugin("bad", run=response(status="error", error="no", retry=False))
    waiting = f"while [ ! -e {gate} ]; do sleep 0.02; done\n"
    folder.plugin("held", run=OK.replace("cat > /dev/null\n", f"cat > /dev/null\n{waiting}"))
    return folder.write(api=API, config=CONFIG)


@pytest.fixture
def served(bus: Bus, configured: Folder, gate: Path) -> Iterator[Served]:
    with api_of(bus, configured) as served:
        yield served
        gate.touch()


@pytest.mark.requirement("D-113")
def test_d_113_a_pipeline_is_answered_at_once_or_when_all_is_over(served: Served) -> None:
    client = served.client()
    begun = client.post("/pipeline/later", json={"payload": {"n": 1}})
    assert begun.status_code == 202
    told = begun.json()
    assert (told["status"], told["plugin"], told["command"]) == ("queued", "pipeline", "later")
    assert wait(served.bus, told["root"], 60).state == "succeeded"
    over = client.post("/pipeline/now", json={"payload": {"n": 1}})
    assert over.status_code == 200
    body = over.json()
    assert (body["status"], body["result"]) == ("succeeded", {"status": "ok", "result": "done"})
    assert [job["step"] for job in body["tree"]] == ["first", "second"]
    assert {job["status"] for job in body["tree"]} == {"succeeded"}
    assert body["tree"][0]["job_id"] == body["job_id"] == body["tree"][1]["parent_job_id"]
    assert body["duration_ms"] > 0


def test_a_synchronous_pipeline_is_not_waited_for_if_the_caller_says_so(served: Served) -> None:
    answer = served.client().post("/pipeline/held?async=true")
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")


def test_a_failed_run_tells_which_job_and_why(served: Served) -> None:
    answer = served.client().post("/pipeline/failing")
    body = answer.json()
    assert (answer.status_code, body["status"]) == (200, "dead")
    assert [(job["step"], job.get("last_error")) for job in body["tree"]] == [
        ("first", None),
        ("second", "no"),
    ]


def test_a_run_that_takes_too_long_goes_on_after_the_answer(served: Served, gate: Path) -> None:
    answer = served.client().post("/pipeline/brief")
    body = answer.json()
    assert (answer.status_code, body["status"], body["timeout_exceeded"]) == (202, "running", True)
    assert body["message"] == "Pipeline still running after timeout."
    gate.touch()
    served.running.ended(body["job_id"])
    found = served.client().get(f"/job/{body['job_id']}/tree").json()
    assert [(job["job_id"], job["status"]) for job in found] == [(body["job_id"], "succeeded")]


def test_d_121_the_hard_limit_bounds_the_wait_of_every_pipeline(
    bus: Bus, configured: Folder, gate: Path
) -> None:
    configured.write(api=with_setting("max_sync_timeout: 50ms"))
    with api_of(bus, configured) as served:
        assert served.client().post("/pipeline/held").json()["timeout_exceeded"] is True
        gate.touch()


def test_d_121_callers_beyond_the_limit_are_refused_and_begin_nothing(
    bus: Bus, configured: Folder, gate: Path
) -> None:
    configured.write(api=with_setting("max_concurrent_sync: 2"))
    answers: list[httpx.Response] = []

    def ask(client: httpx.Client) -> None:
        answers.append(client.post("/pipeline/held"))

    with api_of(bus, configured) as served:
        clients = [served.client() for _ in range(3)]
        threads = [threading.Thread(target=ask, args=(client,)) for client in clients[:2]]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(list(bus.read(type="plugin.held.poll"))) == 2)
        refused = clients[2].post("/pipeline/held")
        assert "callers wait" in problem(refused, 429, "too-many-requests")
        assert refused.headers["Retry-After"] == "1"
        assert len(list(bus.read(type="plugin.held.poll"))) == 2
        gate.touch()
        for thread in threads:
            thread.join(60)
        assert [answer.status_code for answer in answers] == [200, 200]
        assert clients[2].post("/pipeline/held").status_code == 200


def test_a_caller_that_leaves_frees_its_place(bus: Bus, configured: Folder, gate: Path) -> None:
    configured.write(api=with_setting("max_concurrent_sync: 1"))
    with api_of(bus, configured) as served:
        leaving = served.client(KEYS["ADMIN"])
        with pytest.raises(httpx.ReadTimeout):
            leaving.post("/pipeline/held", timeout=httpx.Timeout(60, read=1))
        leaving.close()
        answers: list[httpx.Response] = []
        gate.touch()

        def is_let_in() -> bool:
            answers.append(served.client().post("/pipeline/held"))
            return answers[-1].status_code == 200

        wait_until(is_let_in)


def test_the_end_of_the_service_answers_callers_that_wait(
    bus: Bus, configured: Folder, gate: Path
) -> None:
    answers: list[Any] = []
    with api_of(bus, configured) as served:
        client = served.client()
        asking = threading.Thread(target=lambda: answers.append(client.post("/pipeline/held")))
        asking.start()
        wait_until(lambda: list(bus.read(type="plugin.held.poll")))
        served.close()
        asking.join(60)
        assert answers[0].json()["timeout_exceeded"] is True
        gate.touch()


def test_several_first_jobs_are_refused_to_who_waits(served: Served) -> None:
    before = served.bus.log.newest_seq()
    detail = problem(served.client().post("/pipeline/wide"), 400, "invalid-input")
    assert "begins with 2 jobs" in detail
    assert served.bus.log.newest_seq() == before
    body = served.client().post("/pipeline/wide?async=true").json()
    assert len(body["job_ids"]) == 2
    assert wait(served.bus, body["root"], 60).state == "succeeded"
    tree = served.client().get(f"/job/{body['root']}/tree").json()
    assert [job["job_id"] for job in tree] == body["job_ids"]


def test_an_unknown_pipeline_is_not_found(served: Served) -> None:
    problem(served.client().post("/pipeline/nothing"), 404, "not-found")


def test_a_bus_that_can_not_be_read_is_told_as_its_error(bus: Bus) -> None:
    """And not as a group of errors, of which the caller learns nothing."""

    async def never() -> Message:
        await anyio.sleep_forever()
        raise AssertionError

    async def wait_for_nothing() -> None:
        await WaitingCallers(bus).wait(Request({"type": "http"}, never), "nothing", 5)

    with pytest.raises(NotFound):
        anyio.run(wait_for_nothing)
