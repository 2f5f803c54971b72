"""Protocol 2 with real programs: what they are told, and what is made of what they do."""

import json
import os
from pathlib import Path
from textwrap import dedent

import pytest

from ackbus import Bus
from ackbus.automation.records.facts import JobLog
from ackbus.schema.message.times import parse_ts
from ackbus.schema.queries import engine_of

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK, dumping, response, running

CONFIG = """
    plugin_roots: [plugins]
    service: {max_workers: 2}
    plugins:
      echo:
        enabled: true
        config: {url: "http://x", nested: {a: [1, 2]}}
        retry: {max_attempts: 2, backoff_base: 1ms}
"""


#: Values that no state and no message can hold.
LARGE = json.dumps({"k": "x" * 1_000_001})
DEEP = '{"type": "a", "payload": ' + "[" * 300 + "]" * 300 + "}"


def request_of(plugin: Path, job_id: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((plugin / f"{job_id}.json").read_text())
    return found


def ended(bus: Bus, folder: Folder, program: str, config: str = CONFIG) -> tuple[str, ...]:
    """Runs one job of a program, and returns its state, its error and how many attempts it had."""
    folder.write(config=config).plugin("echo", run=dedent(program).lstrip())
    with running(bus, folder.path) as service:
        job = service.ended(service.submit("echo"))
        return job.state, job.error or "", str(job.attempt)


@pytest.mark.requirement("D-88", "D-89", "D-90", "D-95")
def test_d_88_a_request_has_the_documented_fields(bus: Bus, folder: Folder) -> None:
    plugin = folder.write(config=CONFIG).plugin("echo", run=dumping())
    event = {"type": "a.b", "source": "feed", "timestamp": "2026-01-01T00:00:00.000Z"}
    with running(bus, folder.path) as service:
        poll = service.ended(service.submit("echo"))
        given = {"payload": {"x": 1}, "event": event | {"event_id": "e-1"}}
        handle = service.ended(service.submit("echo", "handle", **given))
        polled, handled = (
            request_of(plugin, str(bus.get(job.seq).id))  # type: ignore[union-attr]
            for job in (poll, handle)
        )
        begun = service.claims(str(polled["job_id"]))[0].claimed_at_ms
    names = {"protocol", "job_id", "command", "config", "state", "context", "deadline_at"}
    assert set(polled) == names
    assert (polled["protocol"], polled["command"]) == (2, "poll")
    assert polled["config"] == {"url": "http://x", "nested": {"a": [1, 2]}}
    assert (polled["state"], polled["context"]) == ({}, {})
    assert parse_ts(str(polled["deadline_at"])) == begun + 60_000
    assert set(handled) == names | {"event"}
    assert handled["event"] == event | {"event_id": "e-1", "payload": {"x": 1}}


def test_payload_of_another_command_than_handle_reaches_the_plugin(
    bus: Bus, folder: Folder
) -> None:
    plugin = folder.write(config=CONFIG).plugin("echo", run=dumping())
    with running(bus, folder.path) as service:
        job_id = service.submit("echo", payload={"page": 2})
        service.ended(job_id)
    assert request_of(plugin, job_id)["payload"] == {"page": 2}


@pytest.mark.slow
@pytest.mark.requirement("D-91", "D-92", "D-96", "D-72", "X-13")
@pytest.mark.parametrize(
    ("printed", "attempts", "error"),
    [
        (
            "banner\n" + json.dumps({"status": "ok", "result": ""}),
            2,
            "protocol error: the response is",
        ),
        (json.dumps({"status": "ok", "result": ""}) * 2, 2, "protocol error: the response is"),
        ("plain text", 2, "protocol error: the response is not valid JSON"),
        ("", 2, "protocol error"),
        ("[]", 2, "protocol error: the response is not a JSON object"),
        ('{"status": "fine", "result": ""}', 1, "status in the response is neither ok nor error"),
        ('{"status": "ok"}', 1, "the response is ok, and has no result"),
        ('{"status": "ok", "result": {}}', 1, "result in the response is not of type str"),
        ('{"status": "ok", "result": "", "events": {}}', 1, "events in the response is not of"),
        ('{"status": "ok", "result": "", "events": [{"type": ""}]}', 1, "the type of an event is"),
        ('{"status": "ok", "result": "", "events": [1]}', 1, "an event in the response is not an"),
        ('{"status": "ok", "result": "", "state_updates": []}', 1, "state_updates in the response"),
        (f'{{"status": "ok", "result": "", "state_updates": {LARGE}}}', 1, "the state"),
        (f'{{"status": "ok", "result": "", "events": [{DEEP}]}}', 1, "nested too deep"),
        ('{"status": "ok", "result": "", "protocol": 1}', 1, "is of protocol"),
    ],
)
def test_d_91_a_wrong_response_fails_and_what_is_done_is_not_done_again(
    bus: Bus, folder: Folder, printed: str, attempts: int, error: str
) -> None:
    """Only where no response is there, nobody knows whether the plugin has done its work."""
    plugin = folder.write(config=CONFIG).plugin("echo", run="#!/bin/sh\ncat >/dev/null\ncat out\n")
    (plugin / "out").write_text(printed)
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        job = service.ended(job_id)
        log = service.log(job_id)
        claims = service.claims(job_id)
    assert (job.state, job.attempt) == ("dead", attempts)
    assert error in str(job.error)
    assert [entry.result for entry in log] == [printed] * attempts
    assert {claim.result or "" for claim in claims} == {printed[:65_536]}


@pytest.mark.requirement("D-91", "D-93")
@pytest.mark.parametrize(
    ("fields", "logs", "warnings"),
    [
        ({"logs": [{"level": "debug", "message": "x"}]}, [("debug", "x")], []),
        (
            {"logs": [{"level": "fatal", "message": "x"}]},
            [("info", "x")],
            ["'fatal' are no levels"],
        ),
        ({"logs": [{"level": 5, "message": "x"}]}, [("info", "x")], ["5 are no levels"]),
        ({"logs": [{"message": "x"}]}, [("info", "x")], []),
        ({"logs": ["x", 5, {"level": "info"}]}, [("info", "x"), ("info", "5")], []),
        ({"logs": "x"}, [], ["logs are an array of objects"]),
        ({"note": 1, "extra": 2}, [], ["'note', 'extra' are no fields of protocol 2"]),
        ({"state_replace": True}, [], ["'state_replace' are no fields"]),
        ({"events": [{"type": "a", "source": "b"}]}, [], ["'source' are no fields of events"]),
        ({"error": None, "retry": None, "events": None, "logs": None}, [], []),
    ],
)
def test_what_only_comments_on_done_work_fails_nothing_and_is_warned_of(
    bus: Bus, folder: Folder, fields: dict[str, object], logs: list[object], warnings: list[str]
) -> None:
    folder.write(config=CONFIG).plugin("echo", run=response(**fields))
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        job = service.ended(job_id)
        (claim,) = service.claims(job_id)
    assert (job.state, job.attempt) == ("succeeded", 1)
    found = [(each["level"], each["message"]) for each in json.loads(claim.logs or "[]")]
    told = [text for level, text in found if level == "warn"]
    assert [each for each in found if each[0] != "warn"][: len(logs)] == logs
    assert len(told) == len(warnings)
    assert all(part in text for part, text in zip(warnings, told, strict=True))


@pytest.mark.requirement("D-70", "D-72", "X-14", "R-28")
@pytest.mark.parametrize(
    ("program", "attempts", "error"),
    [
        ("echo 'bad config' >&2; exit 78", "1", "exited with code 78, which forbids another"),
        ("exit 75", "2", "exited with code 75, which asks for another attempt"),
        ("echo broken >&2; exit 1", "2", "exited with code 1: broken"),
        ("kill -9 $$", "2", "killed by signal 9"),
        ('echo \'{"status":"error","error":"no","retry":false}\'', "1", "no"),
        ('echo \'{"status":"error","error":"no"}\'', "2", "no"),
        ('echo \'{"status":"ok","result":""}\'; exit 3', "2", "exited with code 3"),
    ],
)
def test_d_70_exits_and_answers_decide_whether_it_is_tried_again(
    bus: Bus, folder: Folder, program: str, attempts: str, error: str
) -> None:
    state, said, count = ended(bus, folder, f"#!/bin/sh\ncat > /dev/null\n{program}\n")
    assert (state, count) == ("dead", attempts)
    assert error in said


def test_d_71_retry_false_leaves_the_first_attempt_and_no_time_for_another(
    bus: Bus, folder: Folder
) -> None:
    program = response(status="error", error="gone", retry=False)
    folder.write(config=CONFIG).plugin("echo", run=program)
    with running(bus, folder.path) as service:
        job = service.ended(service.submit("echo"))
    assert (job.attempt, job.state, job.error) == (1, "dead", "gone")


@pytest.mark.requirement("D-93", "D-16")
def test_d_93_logs_are_kept_in_their_order(bus: Bus, folder: Folder) -> None:
    logs = [{"level": level, "message": f"at {level}"} for level in ("warn", "info", "error")]
    folder.write(config=CONFIG).plugin("echo", run=response(logs=logs))
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        service.ended(job_id)
        (claim,) = service.claims(job_id)
    assert json.loads(claim.logs or "") == logs


@pytest.mark.requirement("D-94", "R-12")
def test_d_94_events_are_published_as_the_job_ends(bus: Bus, folder: Folder) -> None:
    events = [
        {"type": "new data / with spaces", "payload": {"n": 1}, "dedupe_key": "d"},
        {"type": "second"},
    ]
    folder.write(config=CONFIG).plugin("echo", run=response(events=events))
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        service.ended(job_id)
    first, second = bus.read(type="plugin.event")
    assert first.headers["event_type"] == "new data / with spaces"
    assert (first.from_agent, first.payload, first.in_reply_to) == ("echo", {"n": 1}, job_id)
    assert second.headers["event_type"] == "second"
    assert first.to_agent == "automation"  # nobody's mail


@pytest.mark.parametrize(("setting", "own"), [("plugin", True), ("service", False), (None, False)])
def test_a_plugin_runs_where_the_service_was_started_or_in_its_folder(
    bus: Bus, folder: Folder, setting: str | None, own: bool
) -> None:
    program = """#!/bin/sh
    cat >/dev/null
    printf '{"status": "ok", "result": "%s"}' "$(pwd -P)"
    """
    plugin = folder.write(config=CONFIG).plugin("echo", run=dedent(program))
    line = "" if setting is None else f"working_directory: {setting}\n"
    manifest = plugin / "manifest.yaml"
    manifest.write_text(manifest.read_text().replace("working_directory: plugin\n", line))
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        service.ended(job_id)
        (claim,) = service.claims(job_id)
    assert claim.result == os.path.realpath(plugin if own else ".")


def test_null_events_logs_and_updates_are_empty(bus: Bus, folder: Folder) -> None:
    program = response(events=None, logs=None, state_updates=None)
    assert ended(bus, folder, program)[0] == "succeeded"


@pytest.mark.slow
@pytest.mark.requirement("D-65", "D-66", "X-12")
def test_d_66_a_plugin_that_ignores_term_is_gone_with_its_children_after_its_time(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    program = f"""
        #!/bin/sh
        trap '' TERM
        (trap '' TERM; echo $$ > {tmp_path}/parent; sleep 60 & echo $! > {tmp_path}/child; wait) &
        wait
        sleep 60
        """
    config = CONFIG.replace("config:", "timeouts: {poll: 3s}\n        config:").replace(
        "max_attempts: 2", "max_attempts: 1"
    )
    folder.write(config=config).plugin("echo", run=dedent(program).lstrip())
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        job = service.ended(job_id)
        (claim,) = service.claims(job_id)
        (entry,) = service.log(job_id)
    assert (job.state, claim.status, entry.status) == ("dead", "timed_out", "timed_out")
    assert "timed out after 3 s" in str(job.error)
    for name in ("parent", "child"):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / name).read_text()), 0)


@pytest.mark.slow
def test_d_67_more_than_10_mib_of_stdout_is_an_error_and_the_beginning_is_kept(
    bus: Bus, folder: Folder
) -> None:
    program = "#!/bin/sh\ncat > /dev/null\nhead -c 11534336 /dev/zero | tr '\\0' x\n"
    config = CONFIG.replace("max_attempts: 2", "max_attempts: 1")
    folder.write(config=config).plugin("echo", run=program)
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        job = service.ended(job_id)
        (entry,) = service.log(job_id)
    assert job.state == "dead"
    assert "protocol error: more than 10485760 bytes" in str(job.error)
    assert entry.result == "x" * 10 * 1024 * 1024


@pytest.mark.requirement("D-68", "X-24", "Q-12", "D-138")
def test_d_68_more_than_64_kib_of_stderr_is_cut_and_the_job_may_succeed(
    bus: Bus, folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    program = OK.replace("cat >", "head -c 102400 /dev/zero | tr '\\0' e >&2\ncat >")
    folder.write(config=CONFIG).plugin("echo", run=program)
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        assert service.ended(job_id).state == "succeeded"
        (entry,) = service.log(job_id)
    assert entry.stderr == "e" * 65_536
    assert "stderr was cut to 65536 bytes" in caplog.text


def test_d_139_stdout_is_kept_as_it_is(bus: Bus, folder: Folder) -> None:
    printed = '{ "result" :"ok\\u00fc",\n\t"status":   "ok" }  \n\n'
    program = f"#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{printed}END\n"
    folder.write(config=CONFIG).plugin("echo", run=program)
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        assert service.ended(job_id).state == "succeeded"
        (entry,) = service.log(job_id)
    assert entry.result == printed


@pytest.mark.requirement("D-51", "D-52", "D-64")
def test_d_51_one_process_for_each_job_by_the_same_user_and_none_between(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    program = OK.replace("cat >", f"echo $$ $(id -u) >> {tmp_path}/ran\ncat >")
    folder.write(config=CONFIG).plugin("echo", run=program)
    with running(bus, folder.path) as service:
        for _ in range(2):
            service.ended(service.submit("echo"))
        lines = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
        pids = [int(pid) for pid, _ in lines]
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
    assert len(set(pids)) == 2
    assert {uid for _, uid in lines} == {str(os.getuid())}


def test_environment_and_folder_are_the_documented_ones(
    bus: Bus, folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret of the service's environment is for whom the configuration gives it to."""
    monkeypatch.setenv("SERVICE_SECRET", "hidden")
    monkeypatch.setenv("PASSED_ON", "seen")
    program = OK.replace("cat >", f"env > {tmp_path}/env; pwd > {tmp_path}/pwd\ncat >")
    config = CONFIG.replace("max_workers: 2", "plugin_env_passthrough: [PASSED_ON]")
    plugin = folder.write(config=config).plugin("echo", run=program)
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        service.ended(job_id)
    told = dict(
        line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line
    )
    assert "SERVICE_SECRET" not in told
    assert told["PASSED_ON"] == "seen"
    assert told["PATH"] == os.environ["PATH"]
    assert (told["BUS_AGENT"], told["BUS_JOB_ID"]) == ("echo", job_id)
    assert told["BUS_DIR"] == bus.layout.directory
    assert (tmp_path / "pwd").read_text().strip() == str(plugin)


def test_limits_of_memory_and_files_hold(bus: Bus, folder: Folder, tmp_path: Path) -> None:
    """Promise 6: by setting."""
    program = OK.replace("cat >", f"(ulimit -v; ulimit -n; ulimit -t) > {tmp_path}/limits\ncat >")
    config = CONFIG.replace(
        "enabled: true", "enabled: true\n        limits: {memory: 512MiB, cpu: 9s, open_files: 77}"
    )
    folder.write(config=config).plugin("echo", run=program)
    with running(bus, folder.path) as service:
        assert service.ended(service.submit("echo")).state == "succeeded"
    assert (tmp_path / "limits").read_text().split() == [str(512 * 1024), "77", "9"]


def test_live_output_is_there_while_the_job_runs_and_moves_to_the_log(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    program = OK.replace(
        "cat >", f"echo working >&2; sleep 0.6; echo more >&2\nread x < {tmp_path}/go\ncat >"
    )
    folder.write(config=CONFIG).plugin("echo", run=program)
    log = JobLog(engine_of(bus))
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        wait_until(lambda: service.claims(job_id))
        (claim,) = service.claims(job_id)

        def printed() -> str:
            return "".join(t for stream, t in log.output(claim.token) if stream == "stderr")

        wait_until(lambda: printed() == "working\nmore\n")
        (tmp_path / "go").write_text("\n")
        service.ended(job_id)
        assert log.output(claim.token) == []
        (entry,) = service.log(job_id)
    assert entry.stderr == "working\nmore\n"
