"""Promise 11: bad input by machine; some cases, the same in every run. `make fuzz` has more."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st

from ackbus import Bus

from ..sizes import size
from .command_lines import harmless
from .commands import Ended, Line, check_ended, digest, forks
from .engine import Target, fuzz, shares
from .library import a_bus, nothing, undone
from .targets import TARGETS

pytestmark = pytest.mark.slow

CASES = size(sample=120, whole=2000)
SEED = 6

COUNTS = shares(TARGETS, CASES)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_bad_input_is_refused_in_a_line_and_changes_nothing(target: Target) -> None:
    outcome = fuzz(target, COUNTS[target.name], SEED)
    assert outcome.failure is None, outcome.failure
    assert outcome.cases == COUNTS[target.name]


def test_the_shares_are_all_cases() -> None:
    assert sum(COUNTS.values()) == pytest.approx(CASES, abs=len(TARGETS))


# The harness finds what it is there to find ----------------------------------------------------


def crash(text: str, _place: None) -> None:
    {}[text] if "q" in text else None


def hang(text: str, _place: None) -> None:
    while "q" in text:
        pass


def half_stored(text: str, bus: Bus) -> None:
    before = bus.log.newest_seq()
    with undone(bus):
        bus.publish("note", from_agent="alice")
        if "q" in text:
            assert bus.log.newest_seq() == before


@pytest.mark.parametrize(
    ("check", "place", "words"),
    [
        (crash, nothing, "KeyError"),
        (hang, nothing, "took longer than"),
        (half_stored, a_bus, "newest_seq"),
    ],
)
def test_planted_defect_is_found_with_its_smallest_case(
    check: object, place: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fuzz.engine.CASE_S", 0.02)
    target = Target("planted", 1, st.text("pqr", max_size=9), check, place)  # type: ignore[arg-type]
    found = fuzz(target, 200, SEED)
    assert found.failure is not None
    assert words in found.failure
    assert "smallest case: 'q'" in found.failure
    assert f"seed {SEED}" in found.failure


USAGE = "bus: TYPE must be a word\n"


@pytest.mark.parametrize(
    "ended",
    [
        Ended(None, b"", ""),
        Ended(1, b"", "bus: unexpected KeyError: 'x'; -v shows where\n"),
        Ended(1, b"", "Traceback (most recent call last):\n  …\nKeyError: 'x'\n"),
        Ended(70, b"", USAGE),
        Ended(-11, b"", ""),
        Ended(2, b"", ""),
        Ended(2, b"", USAGE * 2),
        Ended(2, b"", "TYPE must be a word\n"),
        Ended(2, b"", "bus: " + "x" * 5000 + "\n"),
    ],
    ids=lambda ended: f"{ended.code} {ended.err[:20]}",
)
def test_command_that_ends_badly_is_found(ended: Ended) -> None:
    check_ended(Line(()), Ended(2, b"", "bus: warning: odd\n" + USAGE))
    with pytest.raises(AssertionError):
        check_ended(Line(()), ended)


def test_change_by_a_refused_command_is_found(tmp_path: Path) -> None:
    with forks(tmp_path) as commands:
        project = commands.fresh()
        assert commands.run(Line(("publish", "a..b"))).code == 2
        assert digest(project) == commands.digest_before
        assert commands.run(Line(("publish", "note"))).code == 0
        assert digest(project) != commands.digest_before
        assert digest(commands.fresh()) == commands.digest_before


def test_drawn_words_lead_nowhere_else() -> None:
    words = ["/etc/passwd", "--dir=/etc", "@/etc/passwd", "~", "../../../../../etc", "-f", "-nf"]
    for word in words:
        made = harmless(word)
        assert "=/" not in made
        assert not made.startswith(("/", "@/", "~", "-f", "-nf", "../.."))
    assert harmless("../other") == "../other"


def test_results_are_a_line_of_json() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--cases", "20", "--seed", "1", "--only", "time"],
        capture_output=True,
        cwd=Path(__file__).parents[2],
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"seed 1" in done.stderr
    record = json.loads(done.stdout)
    assert (record["seed"], record["cases"], record["failures"]) == (1, 20, 0)
    assert record["cases_by_target"] == {"time": 20}
