"""Libraries for agents call the tools as their users' agents do, with null for what is left out.

`make programs` installs each into an environment of its own, since they want different versions of
the SDK; without them nothing is run.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Inbox

from .scripted_model import Call, scripted_model
from .test_task_to_merge import BUS

#: The folder that has an environment for each library.
FOLDER = os.environ.get("ACKBUS_LIBRARIES", "")

SCRIPTS = Path(__file__).parent / "clients"

TIMEOUT_S = 120

#: Calls in which nothing is left out, as schemas that are made strict demand.
STRICT_INBOX: dict[str, Any] = {
    "type": None,
    "wait_s": 0,
    "limit": None,
    "with_work": False,
    "cursor": "",
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("bus_inbox", STRICT_INBOX),
    ("bus_send", {"type": "answer", "payload": "yes", "in_reply_to": "1", "to": None, "id": None}),
    ("bus_ack", {"seq": 1}),
    ("bus_status", {}),
]


def run(library: str, *arguments: str, bus_dir: Path, env: dict[str, str]) -> str:
    """The output of the script of a library, which drives `bus mcp`."""
    python = Path(FOLDER, library, "bin", "python")
    if not FOLDER or not python.exists():
        pytest.skip(f"{library} is not there; see `make programs`")
    server = [BUS, "mcp", "--dir", str(bus_dir), "--agent", "me"]
    quiet = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
    done = subprocess.run(
        [python, SCRIPTS / f"with_{library}.py", *arguments, *server],
        env=env | quiet,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture
def asked(bus: Bus) -> Bus:
    """A bus on which `me` was asked by `lead`."""
    for name in ("lead", "me"):
        Inbox(bus, name).join()
    bus.publish("review.note", "a question", from_agent="lead", to_agent="me")
    return bus


@pytest.mark.parametrize("library", ["langchain", "crewai"])
def test_adapter_reads_answers_and_acknowledges(
    library: str, asked: Bus, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    printed = run(library, json.dumps(CALLS), bus_dir=bus_dir, env=bus_env)
    told = [json.loads(line) for line in printed.splitlines() if line.startswith('"')]
    assert len(told) == len(CALLS), printed
    assert "bus_ack(seq=1)" in told[0]
    assert "| a question" in told[0]
    assert "seq 2, to lead" in told[1]
    assert Inbox(asked, "me").position == 1
    (answer,) = asked.read(type="answer")
    assert (answer.to_agent, answer.payload, answer.in_reply_to is None) == ("lead", "yes", False)


def test_agent_with_strict_schemas_reads_its_inbox(
    asked: Bus, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    """The SDK of OpenAI asks for every argument, and hands the result over as it came."""
    strict = STRICT_INBOX | {"type": "", "limit": 0}
    with scripted_model(Call("bus_inbox", strict)) as model:
        run("openai_agents", model.url, bus_dir=bus_dir, env=bus_env)
    first, second = model.asked
    (inbox,) = (
        each["function"] for each in first["tools"] if each["function"]["name"] == "bus_inbox"
    )
    assert inbox["strict"] is True
    assert set(inbox["parameters"]["required"]) == set(STRICT_INBOX)
    (result,) = (each["content"] for each in second["messages"] if each["role"] == "tool")
    assert "bus_ack(seq=1)" in json.dumps(result)
    assert "a question" in json.dumps(result)
