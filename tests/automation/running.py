"""A service that runs in a thread of the test, over a folder of configuration."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ackbus import Bus
from ackbus.automation.active_config import examine_folder
from ackbus.automation.jobs.submission import JobRequest, Submission, Submitted
from ackbus.automation.records.facts import JobLog, LogEntry
from ackbus.automation.service import Service
from ackbus.schema.queries import engine_of
from ackbus.subscribers.jobs.claims import ClaimRecord, Claims
from ackbus.subscribers.jobs.jobs import Job, Jobs
from ackbus.subscribers.queues.queues import Queues

from ..conftest import wait_until
from .conftest import Folder

#: Prints a response that says ok, and does nothing.
OK = """#!/bin/sh
cat > /dev/null
echo '{"status": "ok", "result": "done"}'
"""


def held(path: Path) -> str:
    """The program of a plugin that notes that it runs, and waits for a file."""
    wait = f"while [ ! -e {path}.go ]; do sleep 0.02; done"
    return OK.replace("cat >", f"echo $$ >> {path}\n{wait}\ncat >")


def echo_and_held(folder: Folder, tmp_path: Path, config: str) -> Folder:
    """Write a configuration with its plugins: `echo` ends at once, `held` waits."""
    folder.write(config=config)
    folder.plugin("echo", run=OK)
    folder.plugin("held", run=held(tmp_path / "held"))
    return folder


def response(**fields: object) -> str:
    """The program of a plugin that prints these fields as its response."""
    text = json.dumps({"status": "ok", "result": "done"} | fields)
    return f"#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{text}\nEND\n"


def dumping(answer: str = '{"status": "ok", "result": "done"}') -> str:
    """The program of a plugin that keeps each request beside itself, as JOB.json."""
    return f"""#!/bin/sh
cat > last.tmp
id=$(sed 's/.*"job_id":"\\([^"]*\\)".*/\\1/' last.tmp)
mv last.tmp "$id.json"
printf '%s\\n' '{answer}'
"""


class Running:
    """A service that runs, and what can be seen of its jobs."""

    def __init__(self, bus: Bus, service: Service, thread: threading.Thread) -> None:
        self.bus = bus
        self.service = service
        self.thread = thread

    def submit(self, plugin: str, command: str = "poll", **fields: Any) -> str:
        """Submits a job, and returns its id."""
        given: dict[str, Any] = {"submitted_by": "cli", **fields}
        done = Submission(self.bus).submit(JobRequest(plugin=plugin, command=command, **given))
        assert isinstance(done, Submitted), done
        return done.job_id

    def job(self, job_id: str) -> Job:
        message = self.bus.get(job_id)
        assert message is not None
        (job,) = Jobs.of(self.bus).of_message(message.seq)
        return job

    def ended(self, job_id: str) -> Job:
        """Waits until a job is over, and returns it."""
        wait_until(lambda: self.job(job_id).ended_at_ms is not None)
        return self.job(job_id)

    def claims(self, job_id: str) -> list[ClaimRecord]:
        job = self.job(job_id)
        return Claims.of(self.bus).of_job(Queues(self.bus).get(job.queue), job.seq)

    def log(self, job_id: str) -> list[LogEntry]:
        return JobLog(engine_of(self.bus)).of_job(job_id)


@contextmanager
def running(
    bus: Bus, directory: Path, *, environ: dict[str, str] | None = None
) -> Iterator[Running]:
    """Runs the service of a folder until the block ends."""
    with Bus.open(bus.layout.directory) as own:
        service = Service(own, lambda: examine_folder(directory, environ or {}))
        with serving(bus, service) as served:
            yield served


@contextmanager
def serving(bus: Bus, service: Service) -> Iterator[Running]:
    """Runs a service until the block ends."""
    failed: list[BaseException] = []
    ready = threading.Event()

    def run() -> None:
        try:
            service.run(ready.set)
        except BaseException as error:
            failed.append(error)
            ready.set()
        finally:
            engine_of(service.bus).close_thread()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(30)
        if not failed:
            yield Running(bus, service, thread)
    finally:
        service.stop()
        service.stop()
        thread.join(60)
    if failed:
        raise failed[0]
