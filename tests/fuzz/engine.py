"""Targets, and what tries cases on them: rounds of Hypothesis under a seed, each case in time."""

import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisWarning
from hypothesis.strategies import SearchStrategy

#: Seconds of processor time that a case may take before it counts as a hang.
CASE_S = 5.0

#: Cases that share one bus, and one run of Hypothesis, whose memory grows with its length.
ROUND_CASES = 1000

#: How much of a line of a trace is shown, in characters.
SHOWN_CHARS = 300


@dataclass(frozen=True)
class Target:
    """Something that parses what others wrote.

    Attributes:
        name: what it is called in the results.
        share: how many of 1,000 cases are its own.
        cases: draws its input.
        check: tries one input at a place, and raises for what must not be. Calling it twice with
            the same input must do the same: Hypothesis does, to find the smallest one that fails.
        place: makes what its cases share, in a folder of its own.
    """

    name: str
    share: int
    cases: SearchStrategy[Any] = field(repr=False)
    check: Callable[[Any, Any], None]
    place: Callable[[Path], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Outcome:
    """The result of the cases of one target.

    Attributes:
        cases: how many were tried.
        seconds: how long that took.
        failure: what failed, with the smallest case that does; None when nothing did.
    """

    target: str
    cases: int
    seconds: float
    failure: str | None


class _TimeIsUp(BaseException):
    """No `except Exception` in what is tried can swallow it."""


def fuzz(
    target: Target,
    count: int,
    first_seed: int,
    progress: Callable[[int], object] = lambda _done: None,
) -> Outcome:
    """Tries so many cases, in rounds; ends with the first round that finds a failure."""
    started = time.monotonic()
    done = 0
    failure = None
    for round_seed, size in enumerate(_rounds(count), first_seed):
        with TemporaryDirectory(prefix="fuzz-") as folder, target.place(Path(folder)) as place:
            tried, failure = _round(target, place, size, round_seed)
        done += min(tried, size)  # looking for the smallest case tries some more
        progress(done)
        if failure is not None:
            failure += f"\nseed {round_seed}, of the target {target.name!r}"
            break
    return Outcome(target.name, done, time.monotonic() - started, failure)


def _rounds(count: int) -> Iterator[int]:
    while count > 0:
        yield min(count, ROUND_CASES)
        count -= ROUND_CASES


def _round(target: Target, place: Any, size: int, round_seed: int) -> tuple[int, str | None]:
    """Returns how many cases were tried, and what failed."""
    tried = 0
    last: object = None

    @seed(round_seed)
    @settings(
        max_examples=size,
        database=None,
        deadline=None,  # ours ends a hang, this one would only tell of it
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(target.cases)
    def run(case: object) -> None:
        nonlocal tried, last
        tried, last = tried + 1, case
        with _in_time():
            target.check(case, place)

    try:
        with warnings.catch_warnings():
            # Samples are large, and so is what a strategy over them looks like.
            warnings.simplefilter("ignore", HypothesisWarning)
            run()
    except Exception as error:
        return tried, f"{_trace(error)}\nsmallest case: {last!r}"
    return tried, None


def _trace(error: Exception) -> str:
    """Tells where it failed, without what Hypothesis adds."""
    error.__notes__ = []
    lines = "".join(traceback.format_exception(error)).splitlines()
    return "\n".join(
        line if len(line) <= SHOWN_CHARS else line[:SHOWN_CHARS] + "…" for line in lines
    )


@contextmanager
def _in_time() -> Iterator[None]:
    """Fails what takes longer than a case may; a busy machine does not make it take longer."""

    def up(_number: int, _frame: FrameType | None) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGPROF, up)
    signal.setitimer(signal.ITIMER_PROF, CASE_S)
    try:
        yield
    except _TimeIsUp as hang:
        raise AssertionError(f"took longer than {CASE_S:g} s") from hang
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def shares(targets: list[Target], count: int) -> dict[str, int]:
    """Parts a number of cases among targets; each gets one at least."""
    whole = sum(target.share for target in targets)
    return {target.name: max(1, round(count * target.share / whole)) for target in targets}


def say(text: str) -> None:
    """Tells whoever looks on."""
    print(text, file=sys.stderr, flush=True)
