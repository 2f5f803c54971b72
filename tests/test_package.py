"""The package as a whole: what it offers, what it needs, what importing it costs."""

import importlib
import json
import resource
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ackbus

from .programs import run_program

ROOT = Path(__file__).parents[1]

#: Every public name, by what it is for. A name that is added or removed is a decision.
SURFACE = {
    "A bus and its messages": {
        "ABSENT",
        "BlobStore",
        "Bus",
        "Chain",
        "Draft",
        "Found",
        "Link",
        "Message",
        "Priority",
        "Receipt",
        "Settings",
        "Stats",
    },
    "Reading with acknowledgement": {"Inbox", "Parked", "ReadReceipt", "Session", "read_receipts"},
    "Requests and their answers": {
        "Answer",
        "ReplyTypes",
        "Request",
        "Step",
        "Trace",
        "Work",
        "as_completed",
        "as_completed_async",
        "check",
        "request",
        "request_async",
        "wait_all",
        "wait_all_async",
    },
    "Queues and workers": {
        "Act",
        "Claim",
        "ClaimRecord",
        "DeadLetters",
        "Job",
        "JobControl",
        "JsonCommand",
        "Outcome",
        "Policy",
        "Queue",
        "QueueInfo",
        "QueueStats",
        "RawCommand",
        "Spread",
        "Worker",
        "work_headers",
    },
    "Agents, leases, reservations and limits": {
        "Conflict",
        "Heart",
        "Heartbeat",
        "Heartbeats",
        "Lease",
        "Leases",
        "Liveness",
        "Reservation",
        "Reservations",
        "ReserveResult",
        "WaitingLimit",
        "WaitingLimits",
    },
    "Tasks on git branches": {
        *("Blocked", "NewJob", "NewTask", "PlannedJob", "Task", "TaskJob", "Tasks"),
        *("Clean", "Cleaned", "Spawn", "TaskSpec", "finish_task"),
    },
    "Export and import": {"Exporter", "FieldMap", "ImportReport", "import_jsonl"},
    "Types of arguments": {
        "BusOptions",
        "ReadFilters",
        "InboxOptions",
        "MessageFields",
        "PolicyRules",
        "SearchFilters",
    },
    "Words of arguments and states": {
        "AnswerState",
        "ClaimStatus",
        "Durability",
        "EndStatus",
        "JobGate",
        "JobState",
        "LimitKind",
        "OnLost",
        "ReadState",
        "ReservationMode",
        "Review",
        "Start",
        "TaskState",
    },
    "What a handler raises": {"NeverRetry", "RetryLater"},
    "Errors": {
        "AckPastEnd",
        "AckbusError",
        "BlobAltered",
        "BlobMissing",
        "BusBusy",
        "BusMoved",
        "BusNotFound",
        "BusUnusable",
        "ClaimLost",
        "ConflictMarkers",
        "ExporterRunning",
        "GitFailed",
        "NotTrusted",
        "IdConflict",
        "InvalidInput",
        "JobNotFound",
        "LeaseLost",
        "LimitReached",
        "MailArchived",
        "NothingDone",
        "NotFound",
        "NotImported",
        "QueueMismatch",
        "QueueNotFound",
        "QueueStuck",
        "ReadOnlyBackup",
        "Refused",
        "RowDamaged",
        "SegmentMissing",
        "TaskBlocked",
        "TaskExists",
        "TaskNotFound",
        "TimedOut",
        "TooManyHops",
        "UnknownParent",
        "UnknownRecipient",
        "WrongJobState",
        "WrongProcess",
        "WrongTaskState",
    },
    "Warnings": {
        "HopsWarning",
        "NotActedUponWarning",
        "SecondLoopWarning",
        "AnsweredAgainWarning",
        "UnknownRecipientWarning",
        "UnservedRequestWarning",
    },
    "About": {"__version__"},
}

#: Modules that cost a start more than the bus itself.
HEAVY = {"typing", "typer", "click", "rich", "asyncio", "apsw", "orjson", "logging", "threading"}


def test_public_names_are_exactly_these() -> None:
    names = set().union(*SURFACE.values())
    assert set(ackbus.__all__) == names
    headings = {name for name in SURFACE if name != "About"}
    assert headings == set(ackbus._NAMES)
    headings = {name for name in SURFACE if name != "About"}
    assert headings == set(ackbus._NAMES)
    assert {name: getattr(ackbus, name) for name in names}
    assert names <= set(dir(ackbus))
    with pytest.raises(AttributeError, match="has no attribute 'Manager'"):
        ackbus.Manager  # noqa: B018


def test_every_error_has_one_root_and_an_exit_code() -> None:
    """M-29: a program catches one class, and the command has a code for each."""
    for name in SURFACE["Errors"]:
        error = getattr(ackbus, name)
        assert issubclass(error, ackbus.AckbusError)
        assert error.exit_code in (1, 2, 3, 4, 5)
        assert error.__doc__


def test_errors_are_the_builtin_ones_too() -> None:
    """A program that knows nothing of the package catches what it expects."""
    assert issubclass(ackbus.InvalidInput, ValueError)
    assert issubclass(ackbus.TimedOut, TimeoutError)
    assert not issubclass(ackbus.BusBusy, OSError)  # which would pass for trouble with a file


def test_public_classes_are_documented() -> None:
    undocumented = {"ABSENT", "__version__"} | SURFACE["Words of arguments and states"]
    for name in set().union(*SURFACE.values()) - undocumented:
        assert getattr(ackbus, name).__doc__, name


def test_dependencies_are_the_chosen_ones() -> None:
    """C-01: the five of the card; one for people's output, one for inotify, one for the archive."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {line.partition(">")[0].strip() for line in project["dependencies"]}
    assert names == {
        "apsw",
        "orjson",
        "typer",
        "platformdirs",
        "tenacity",
        "rich",
        "inotify-simple",
        "zstandard",
    }
    assert project["version"] == ackbus.__version__


@pytest.mark.parametrize("room", ["bus", "subscribers", "workers", "export", "blobs", "schema"])
def test_room_stands_at_the_top_and_can_be_imported(room: str) -> None:
    """C-02: each says what lives in it."""
    assert (ROOT / room / "__init__.py").is_file()
    assert importlib.import_module(f"ackbus.{room}").__doc__


def test_top_level_has_the_documented_parts() -> None:
    """C-02: beside the rooms."""
    for name in ("pyproject.toml", "README.md"):
        assert (ROOT / name).stat().st_size > 0
    for name in ("tests", "docs"):
        assert any((ROOT / name).iterdir())


@pytest.mark.parametrize(
    "module",
    [
        "schema.sqlite.database",
        "bus.bus",
        "bus.heartbeats",
        "bus.leases",
        "blobs.store",
        "subscribers.inboxes.inbox",
        "export.jsonl.exporter",
    ],
)
def test_module_can_be_imported_alone(module: str) -> None:
    """M-12: connection layer, bus, heartbeats, claims, blobs, cursors, export."""
    run_program(f"import ackbus.{module}")


def modules_after(source: str) -> set[str]:
    """The modules that a program has loaded more than a bare Python."""
    program = f"import json, sys\nbefore = set(sys.modules)\n{source}\n"
    return set(json.loads(run_program(program + "print(json.dumps([*set(sys.modules) - before]))")))


def test_importing_the_package_loads_nothing() -> None:
    assert modules_after("import ackbus") == {"ackbus", "__future__"}


def test_publishing_and_polling_load_nothing_for_people() -> None:
    loaded = modules_after(
        "import tempfile\nfrom ackbus import Bus, Inbox\n"
        "with Bus.init(tempfile.mkdtemp()) as bus:\n"
        "    bus.publish('note', from_agent='bob')\n"
        "    Inbox(bus, 'alice').poll()\n"
        "    Inbox(bus, 'alice').ack(1)\n"
    )
    assert {"ackbus.bus.bus", "ackbus.subscribers.inboxes.inbox", "apsw"} <= loaded
    assert loaded & HEAVY == {"apsw", "orjson"}


def test_importing_the_package_is_quick() -> None:
    """The bound is 40 ms of processor time over a bare Python; the best of several runs."""

    def best_s(source: str) -> float:
        times = []
        for _ in range(7):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", source], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(sum(after[:2]) - sum(before[:2]))
        return min(times)

    assert best_s("import ackbus") - best_s("pass") < 0.040
