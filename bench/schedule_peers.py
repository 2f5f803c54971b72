"""Other schedulers, each as its own documents advise, which tell how late each task begins.

Every one gets the same intervals. A pair of times is when a task was due, and when it began.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from apscheduler.events import EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from huey import SqliteHuey
from peers import redis_server

#: When tasks were due, and when they began, in seconds.
Pairs = list[tuple[float, float]]

#: Runs tasks at intervals for some seconds.
Watch = Callable[[Sequence[float], float], Pairs]

WORKERS = 8

#: The worker of Celery with its beat in it, which hands the due time to each task.
CELERY = """
import os, time
from celery import Celery
from celery.beat import PersistentScheduler

app = Celery("bench", broker="redis+socket://" + os.environ["BENCH_SOCKET"])
app.conf.task_ignore_result = True
app.conf.beat_schedule = {
    str(number): {"task": "note", "schedule": float(every_s)}
    for number, every_s in enumerate(os.environ["BENCH_EVERY"].split())
}

class Telling(PersistentScheduler):
    def apply_entry(self, entry, producer=None):
        entry.args = [entry.last_run_at.timestamp() + entry.schedule.run_every.total_seconds()]
        super().apply_entry(entry, producer=producer)

@app.task(name="note")
def note(due):
    with open(os.environ["BENCH_NOTES"], "a") as notes:
        notes.write(f"{due} {time.time()}\\n")
"""


def apscheduler(*, stored: bool) -> Watch:
    """APScheduler with its threads; its jobs in memory, or in a file of SQLite."""

    def watch(every_s: Sequence[float], seconds: float) -> Pairs:
        found: Pairs = []

        def ran(event: JobExecutionEvent) -> None:
            found.append((event.scheduled_run_time.timestamp(), event.retval))

        with tempfile.TemporaryDirectory() as folder:
            stores = {"default": SQLAlchemyJobStore(f"sqlite:///{folder}/jobs")} if stored else {}
            scheduler = BackgroundScheduler(jobstores=stores, timezone="UTC")
            scheduler.add_listener(ran, EVENT_JOB_EXECUTED)
            for each_s in every_s:
                scheduler.add_job(time.time, "interval", seconds=each_s)
            scheduler.start()
            time.sleep(seconds)
            scheduler.shutdown()
        return found

    return watch


def huey(every_s: Sequence[float], seconds: float) -> Pairs:
    """Huey with a file of SQLite: its periodic tasks know minutes only, so these are delayed."""
    found: Pairs = []
    with tempfile.TemporaryDirectory() as folder:
        queue = SqliteHuey(filename=f"{folder}/huey")

        @queue.task()  # type: ignore[untyped-decorator]
        def note(due: float) -> None:
            found.append((due, time.time()))

        begun = time.time()
        for each_s in every_s:
            for number in range(1, int(seconds / each_s) + 1):
                due = begun + number * each_s
                note.schedule(args=(due,), delay=due - time.time())
        consumer = queue.create_consumer(workers=WORKERS, scheduler_interval=1)
        consumer.start()
        time.sleep(seconds)
        consumer.stop(graceful=True)
    return found


def celery(every_s: Sequence[float], seconds: float) -> Pairs:
    """Celery's beat inside its worker, with Redis as the broker; nothing where that is missing."""
    with tempfile.TemporaryDirectory() as name, redis_server(Path(name)) as socket:
        if socket is None:
            return []
        folder, notes = Path(name), Path(name, "notes")
        (folder / "bench_celery.py").write_text(CELERY)
        given = {
            "BENCH_SOCKET": socket,
            "BENCH_EVERY": " ".join(map(str, every_s)),
            "BENCH_NOTES": str(notes),
        }
        options = ["--scheduler", "bench_celery.Telling", "--schedule", str(folder / "beat")]
        options += ["--concurrency", str(WORKERS)]
        with subprocess.Popen(
            [*(sys.executable, "-m", "celery", "-A", "bench_celery", "worker", "--beat"), *options],
            cwd=folder,
            env=os.environ | given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as worker:
            while not notes.exists() and worker.poll() is None:
                time.sleep(0.05)
            time.sleep(seconds)
            worker.terminate()
        lines = notes.read_text().split("\n") if notes.exists() else []
        return [(float(due), float(at)) for due, at in (line.split() for line in lines if line)]
