"""The package as a whole: what it offers, what it needs, what importing it costs."""

import importlib
import json
import resource
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import ackbus

from .programs import run_program

ROOT = Path(__file__).parents[1]

#: Every public name, by what it is for. A name that is added or removed is a decision.
SURFACE = {
    "ackbus": {
        "A bus and its messages": {
            "ABSENT",
            "BlobStore",
            "Bus",
            "Chain",
            "Draft",
            "Message",
            "Priority",
            "Receipt",
        },
        "Reading with acknowledgement": {"Inbox", "Session"},
        "Requests and their answers": {
            "ReplyTypes",
            "Request",
            "as_completed",
            "as_completed_async",
            "wait_all",
            "wait_all_async",
        },
        "Queues and workers": {
            "Claim",
            "DeadLetters",
            "Job",
            "JobControl",
            "JsonCommand",
            "Outcome",
            "Policy",
            "Queue",
            "RawCommand",
            "Worker",
            "work_headers",
        },
        "Agents, leases, reservations and limits": {
            "Heart",
            "Heartbeats",
            "Lease",
            "Leases",
            "Reservations",
            "WaitingLimits",
        },
        "Tasks on git branches": {
            "NewJob",
            "NewTask",
            "Task",
            "TaskSpec",
            "Tasks",
        },
        "Export and import": {"Exporter", "FieldMap"},
        "What a handler raises": {"NeverRetry", "RetryLater"},
    },
    "ackbus.model": {
        "Records of the log": {"Found", "ImportReport", "Link", "Settings", "Stats"},
        "Records of inboxes and requests": {
            "Answer",
            "Parked",
            "ReadReceipt",
            "Step",
            "Trace",
            "Work",
        },
        "Records of queues": {"Act", "ClaimRecord", "QueueInfo", "QueueStats", "Spread"},
        "Records of agents and leases": {
            "Conflict",
            "Heartbeat",
            "Liveness",
            "Reservation",
            "ReserveResult",
            "WaitingLimit",
        },
        "Records of tasks": {"Blocked", "Cleaned", "PlannedJob", "TaskJob"},
        "Types of arguments": {
            "BusOptions",
            "InboxOptions",
            "MessageFields",
            "PolicyRules",
            "ReadFilters",
            "SearchFilters",
            "WorkerOptions",
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
    },
    "ackbus.errors": {
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
            "IdConflict",
            "InvalidInput",
            "JobNotFound",
            "LeaseLost",
            "LimitReached",
            "MailArchived",
            "NotFound",
            "NotImported",
            "NotTrusted",
            "NothingDone",
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
            "AnsweredAgainWarning",
            "HopsWarning",
            "NotActedUponWarning",
            "SecondLoopWarning",
            "UnknownRecipientWarning",
            "UnservedRequestWarning",
        },
    },
}

#: Modules that cost a start more than the bus itself.
HEAVY = {"typing", "typer", "click", "rich", "asyncio", "apsw", "orjson", "logging", "threading"}


@pytest.mark.parametrize("module_name", SURFACE)
def test_public_names_are_exactly_these(module_name: str) -> None:
    module = import_module(module_name)
    names = set().union(*SURFACE[module_name].values())
    assert set(module.__all__) - {"__version__"} == names
    assert {heading: set(names) for heading, names in _headings(module)} == SURFACE[module_name]
    assert {name: getattr(module, name) for name in names}
    with pytest.raises(AttributeError, match="has no attribute 'Manager'"):
        module.Manager  # noqa: B018


def _headings(module: ModuleType) -> Iterator[tuple[str, list[str]]]:
    for heading, homes in module._NAMES.items():
        yield heading, [name for text in homes.values() for name in text.split()]


def test_names_at_the_root_are_few_and_listed() -> None:
    assert len(ackbus.__all__) <= 51  # the version is one of them
    assert {*ackbus.__all__, "errors", "model"} <= set(dir(ackbus))


def test_modules_of_further_names_are_reached_from_the_root() -> None:
    program = "import ackbus; print(ackbus.errors.BusBusy.__name__, ackbus.model.Found.__name__)"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert done.stdout == "BusBusy Found\n", done.stderr


def test_every_error_has_one_root_and_an_exit_code() -> None:
    """M-29: a program catches one class, and the command has a code for each."""
    for name in SURFACE["ackbus.errors"]["Errors"]:
        error = getattr(ackbus.errors, name)
        assert issubclass(error, ackbus.errors.AckbusError)
        assert error.exit_code in (1, 2, 3, 4, 5)
        assert error.__doc__


def test_errors_are_the_builtin_ones_too() -> None:
    """A program that knows nothing of the package catches what it expects."""
    assert issubclass(ackbus.errors.InvalidInput, ValueError)
    assert issubclass(ackbus.errors.TimedOut, TimeoutError)
    # An OSError would pass for trouble with a file.
    assert not issubclass(ackbus.errors.BusBusy, OSError)


def test_public_classes_are_documented() -> None:
    undocumented = {"ABSENT"} | SURFACE["ackbus.model"]["Words of arguments and states"]
    for module_name, headings in SURFACE.items():
        for name in set().union(*headings.values()) - undocumented:
            assert getattr(import_module(module_name), name).__doc__, name


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
        "bus.local_bus",
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
        "import tempfile\nfrom ackbus import Bus\n"
        "with Bus.init(tempfile.mkdtemp()) as bus:\n"
        "    bus.publish('note', from_agent='bob')\n"
        "    bus.inbox('alice').poll()\n"
        "    bus.inbox('alice').ack(1)\n"
    )
    assert {"ackbus.bus.local_bus", "ackbus.subscribers.inboxes.inbox", "apsw"} <= loaded
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
