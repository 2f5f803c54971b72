"""How many tokens do the tools, and what they give, take of an agent's context?

Estimated (a word of up to ten letters is one, so are three digits and four signs), and by the
tokenizer o200k where `bpe-openai` is installed. Beside it, the same before each form sufficed.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mcp import Client
from mcp_types import Implementation
from measure import Options, at_most, options, record, summary

from ackbus import Bus
from ackbus.server.mcp.sdk_server import Protocol
from ackbus.server.mcp.session import BusHandle, McpSession
from ackbus.server.mcp.stdio import path_of_answers

#: The estimates of before, with ids, times and tools as here.
BEFORE = {
    "1 message, text": 101,
    "1 message, structured": 114,
    "1 message, where both are shown": 216,
    "20 messages, text": 1342,
    "20 messages, structured": 2140,
    "20 messages, where both are shown": 3483,
}

#: The most that the list of all tools that are sent may take.
LISTS = {"list of tools, default": 1200, "list of tools, full": 2250}

NOW_MS = 1_795_790_813_645


def estimated(text: str) -> int:
    """Estimate the tokens of a text."""
    return len(re.findall(r" ?[A-Za-z]{1,10}|\d{1,3}|[^\sA-Za-z\d]{1,4}|\s+", text))


def o200k() -> Callable[[str], int] | None:
    """Return what counts tokens as models of OpenAI do, or None where it is not installed."""
    if not find_spec("bpe_openai"):
        return None
    import bpe_openai

    encoding = bpe_openai.get_encoding("o200k_base")
    return lambda text: len(encoding.encode(text))


def written(value: object) -> str:
    """Return a value as it goes over the wire."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def listed(profile: str) -> str:
    """Return the tools of a profile, as `bus mcp` sends them."""
    with open(path_of_answers(profile), "rb") as file:
        return written(json.load(file)["after initialize"]["tools/list"]["tools"])


async def asked(directory: Path, program: str) -> dict[str, str]:
    """Return both forms of an inbox as a program gets them."""
    home = BusHandle(lambda: Bus.open(directory))
    session = McpSession(home, "me")
    server = Protocol(lambda context: session, lambda context: "default").server()
    info = Implementation(name=program, version="1")
    try:
        async with Client(server, client_info=info) as client:
            result = await client.call_tool("bus_inbox", {})
    finally:
        home.close()
    (text,) = result.content
    assert text.type == "text"
    structured = written(result.structured_content)
    return {
        "text": text.text,
        "structured": structured,
        "both": f"{text.text}\n{structured}",
    }


def texts(folder: Path) -> dict[str, str]:
    """Return what is counted, by its name."""
    found: dict[str, str] = {}
    for count in (1, 20):
        directory = folder / str(count)
        with Bus.init(directory) as made:
            made.heartbeats.beat("me")
        with Bus.open(directory, clock=lambda: NOW_MS) as bus:
            for number in range(count):
                id = f"01a21d79-39cd-7165-a2e7-8e0227b46c{number:02x}"
                text = "Please look at parser.py."
                bus.publish("review.note", text, from_agent="lead", to_agent="me", id=id)
        for program in ("any", "copilot-cli"):
            forms = asyncio.run(asked(directory, program))
            messages = "1 message" if count == 1 else f"{count} messages"
            if program == "any":
                found |= {f"{messages}, {form}": forms[form] for form in ("text", "structured")}
            else:
                found[f"{messages}, where both are shown"] = forms["both"]
    for profile in ("default", "full"):
        found[f"list of tools, {profile}"] = listed(profile)
    return found


def targets(counts: dict[str, int]) -> list[dict[str, Any]]:
    """Return what is asked: no more than before, and a fifth less where both are shown."""
    return [
        at_most(
            name,
            LISTS.get(name) or int(BEFORE[name] * (0.8 if "both" in name else 1)),
            summary([count]),
            "tokens",
        )
        for name, count in counts.items()
    ]


def measure(folder: Path, settings: Options) -> None:
    """Count, and write the record."""
    counted = texts(folder)
    counts = {name: estimated(text) for name, text in counted.items()}
    results: dict[str, Any] = {
        "estimated": {name: summary([count]) for name, count in counts.items()},
        "estimated before": {name: summary([count]) for name, count in BEFORE.items()},
    }
    count = o200k()
    if count is not None:
        results["o200k"] = {name: summary([count(text)]) for name, text in counted.items()}
    record(
        "the context that tools take: tokens",
        results,
        settings,
        targets=targets(counts),
    )


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as directory:
        measure(Path(directory), chosen)
