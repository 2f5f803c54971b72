"""Captures of what the model of each program was sent: the tool it was offered, a call's result.

There is one for each program, version and model that was tried. `ACKBUS_CAPTURES=1 make programs`
writes them again.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from .roles import Json, results_in, roles_of
from .scripted_model import offered

FOLDER = Path(__file__).parent / "captures"

#: Whether each program shows its model the structured form of a result, and the messages as text.
SHOWN = {
    "claude": (True, False),
    "codex": (True, False),
    "gemini": (False, True),
    "copilot": (True, False),
    "opencode": (False, True),
}


#: Words of what each hook says: at the start, after a tool, and at the end of a turn. Each is new
#: in the request that comes after it: the first, the second, the third.
HOOKS = {
    "start": "You are the agent me here.",
    "tool": "2 unread on the bus for me:",
    "stop": "Before you end:",
}


def capture_of(program: str, version: str, model: str, requests: list[Json]) -> Json:
    """The requests of a turn, without what the program says of itself and its folder.

    Args:
        program: the program.
        version: what it says of its version.
        model: `tests`, or `default` for the one that it takes by itself.
        requests: the requests of the turn.
    """
    numbers = re.search(r"\d+\.\d+\.\d+", version)
    assert numbers, version
    tool = offered("bus_inbox", requests[0])
    assert tool is not None
    return {
        "program": program,
        "version": numbers[0],
        "model": model,
        "named": tool.name,
        "deferred": tool.by_code,
        "hooks": {
            hook: sorted({*roles_of(words, request)})
            for (hook, words), request in zip(HOOKS.items(), requests, strict=True)
        },
        "offered": _named("bus_inbox", requests[0].get("tools")) or tool.name,
        "results": results_in(requests[1]),
    }


#: What a person or a model would notice: a version that changes one of these is reported.
TELLING = ("named", "deferred", "hooks")


def changes_of(capture: Json, known: list[Json]) -> list[str]:
    """The differences from what is known of the program and model: by its version, or the last."""
    same = [
        each for each in known if all(each[key] == capture[key] for key in ("program", "model"))
    ]
    if not same:
        return ["nothing is known of it"]
    last = max(
        same,
        key=lambda each: (
            each["version"] == capture["version"],
            [int(number) for number in each["version"].split(".")],
        ),
    )
    return [
        f"{key} was {last[key]} in {last['version']}, and is {capture[key]}"
        for key in TELLING
        if capture[key] != last[key]
    ]


def known_captures() -> list[Json]:
    """The captures of the versions that were tried."""
    return [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]


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
    if told.count("early") > 1:
        lacks.append("a body that is there once")
    if shown != SHOWN[capture["program"]]:
        lacks.append(f"the form that it shows: {shown}")
    return lacks if capture["offered"] else [*lacks, "the tool"]


def write(capture: Json) -> None:
    """Write a capture, where that is asked for."""
    if os.environ.get("ACKBUS_CAPTURES"):
        names = (capture[key] for key in ("program", "version", "model"))
        path = FOLDER / f"{'-'.join(names)}.json"
        path.write_text(json.dumps(capture, indent=2, ensure_ascii=False) + "\n")
