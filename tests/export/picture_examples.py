"""The pictures in docs/pictures, drawn from a small made-up piece of traffic.

Run it with `python tests/export/picture_examples.py --write` after a change to a drawing.
"""

import sys
import tempfile
import warnings
from pathlib import Path

from ackbus import Bus, Draft
from ackbus.export.pictures.timeline import Timeline, timeline_svg
from ackbus.export.pictures.traffic import Links, Traffic, flowchart, sequence_diagram

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"

#: 2026-01-10T14:00:00Z.
START_MS = 1_768_053_600_000

#: Seconds after the start, sender, recipient, type, what it answers, payload: one conversation.
TRAFFIC = [
    (0, "lead", None, "session.start", None, "Goal: the parser reads quoted fields. Say hello."),
    (12, "ann", "lead", "agent.hello", "m1", "Here, and free"),
    (15, "ben", "lead", "agent.hello", "m1", "Here. I have the tests of the lexer open anyway"),
    (60, "lead", "ann", "task_assign", None, {"path": "parser.py", "why": 'a "quoted" field; #17'}),
    (75, "lead", "ben", "task_assign", None, {"path": "lexer.py"}),
    (200, "ann", "ann", "note", None, "Read the grammar again before touching the states"),
    (1_260, "ben", "ann", "question", None, "Does the lexer keep the quotes, or do you need them?"),
    (1_330, "ann", "ben", "answer", "m7", "Keep them: <b> and & must come through as they are"),
    (2_400, "ben", "lead", "task_done", "m5", "lexer.py: 12 tests, all green"),
    (2_700, "ann", "ci", "build.request", None, "branch quoted-fields"),
    (2_990, "ci", "ann", "build.failed", "m10", "test_empty_quotes: expected '' but got None"),
    (3_300, "ann", "ci", "build.request", None, "branch quoted-fields, second try"),
    (3_540, "ci", "ann", "build.done", "m12", "214 passed in 31 s"),
    (3_600, "ann", "lead", "task_done", "m4", "parser.py: quoted fields, empty ones too"),
    (
        66_000,
        "lead",
        "ben",
        "review.request",
        None,
        "Please look at ann's change before I merge it",
    ),
    (66_900, "ben", "lead", "review.done", "m15", "Two remarks in the code, neither blocks"),
    (67_200, "lead", None, "session.end", None, "Merged. Thank you, everybody"),
]

#: When agents beat their hearts for the last time, in seconds after the start; all stopped then.
LAST_BEATS = {"ann": 4_200, "ben": 67_300, "lead": 67_400}


def fill(bus: Bus) -> None:
    """Publish the traffic, with its own ids and times."""
    drafts = [
        Draft(
            type,
            text,
            id=f"m{number}",
            from_agent=sender,
            to_agent=recipient,
            in_reply_to=parent,
            correlation_id=None if number == 1 else "m1",
            ts_ms=START_MS + seconds * 1000,
        )
        for number, (seconds, sender, recipient, type, parent, text) in enumerate(TRAFFIC, 1)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of recipients who have not been seen yet
        bus.publish_many(drafts)


def beat(directory: Path) -> None:
    """Beat for the agents for the last time."""
    for agent, seconds in LAST_BEATS.items():
        with Bus.open(directory, clock=lambda: START_MS + seconds * 1000) as bus:  # noqa: B023
            bus.heartbeats.beat(agent, "stopped", pid=1)


def draw(bus: Bus) -> dict[str, str]:
    """Every picture, by the name of its file."""
    traffic = Traffic.of(bus.read(conversation="m1"), bus.blobs, limit=200)
    links = Links.of(bus.read(conversation="m1"), limit=60)
    timeline = Timeline.of(traffic, bus.heartbeats.list())
    return {
        "conversation.mmd": sequence_diagram(traffic),
        "agents.mmd": flowchart(links),
        "timeline.svg": timeline_svg(timeline, "Time line"),
    }


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    directory = Path(tempfile.mkdtemp()) / ".worker-state"
    with Bus.init(directory) as bus:
        fill(bus)
        beat(directory)
        for name, text in draw(bus).items():
            (FOLDER / name).write_text(text, "utf-8")
