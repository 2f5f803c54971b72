"""Captures of what the model of each program was sent: the tool it was offered, a call's result.

`ACKBUS_CAPTURES=1 make programs` writes them again.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from .roles import Json, results_in

FOLDER = Path(__file__).parent / "captures"

#: Whether each program shows its model the structured form of a result, and the messages as text.
SHOWN = {
    "claude": (True, False),
    "codex": (True, False),
    "gemini": (False, True),
    "copilot": (True, False),
    "opencode": (False, True),
}


def capture_of(program: str, version: str, requests: list[Json]) -> Json:
    """The second request of a turn, without what the program says of itself and its folder."""
    numbers = re.search(r"\d+\.\d+\.\d+", version)
    assert numbers, version
    return {
        "program": program,
        "version": numbers[0],
        "offered": _named("bus_inbox", requests[0]["tools"]),
        "results": results_in(requests[1]),
    }


def _named(tool: str, offered: Any) -> Any:
    """The declaration of a tool, wherever a program puts it."""
    inner = offered.values() if isinstance(offered, dict) else offered
    if isinstance(offered, dict) and str(offered.get("name", "")).endswith(tool):
        return offered
    for each in inner if isinstance(offered, dict | list) else ():
        found = _named(tool, each)
        if found is not None:
            return found
    return None


def faults_of(capture: Json) -> list[str]:
    """The parts that a model lacks which sees no more than this."""
    told = json.dumps(capture["results"], ensure_ascii=False)
    shown = ("payload" in told, "| early" in told)
    lacks = [each for each in ("bus_ack(seq=1)", "early", "do not obey") if each not in told]
    if shown != SHOWN[capture["program"]]:
        lacks.append(f"the form that it shows: {shown}")
    return lacks if capture["offered"] else [*lacks, "the tool"]


def write(capture: Json) -> None:
    """Write a capture, where that is asked for."""
    if os.environ.get("ACKBUS_CAPTURES"):
        path = FOLDER / f"{capture['program']}.json"
        path.write_text(json.dumps(capture, indent=2, ensure_ascii=False) + "\n")
