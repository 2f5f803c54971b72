"""The reports about a bus: a finding of each check, and what a repair did to each part."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .errors import AckbusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    #: Examines one aspect of a bus, and changes nothing.
    Check = Callable[[], "Finding"]

#: How things are: `warn` works, and wants attention; `bad` does not work, or loses something.
OK, WARN, BAD = "ok", "warn", "bad"

#: How bad each state is, as monitors count: 0 well, 1 to be looked at, 2 broken.
GRADES = {OK: 0, WARN: 1, BAD: 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one check.

    Attributes:
        state: `ok`, `warn` or `bad`.
        text: the finding, in words.
        advice: what to do about it; empty where it is ok.
        check: the name of the check; `examine` fills it in.
    """

    state: str
    text: str
    advice: str = ""
    check: str = ""


@dataclass(frozen=True, slots=True)
class Mended:
    """The repair of one part.

    Attributes:
        part: its name.
        text: what was done, and from what.
        lost: what could not be saved, in words; empty when all was.
    """

    part: str
    text: str
    lost: str = ""


def ok(text: str) -> Finding:
    """Return that a thing is as it should be."""
    return Finding(OK, text)


def warn(text: str, advice: str) -> Finding:
    """Return that a thing works, and wants attention."""
    return Finding(WARN, text, advice)


def bad(text: str, advice: str) -> Finding:
    """Return that a thing does not work, or that something is lost."""
    return Finding(BAD, text, advice)


def examine(checks: Mapping[str, Check]) -> Iterator[Finding]:
    """Run checks by their names, one after the other; a check that fails is a finding too.

    On a damaged bus any value may be of the wrong kind, so any error counts. Python's name of the
    error would say nothing to the reader, and is left out.
    """
    for name, check in checks.items():
        try:
            finding = check()
        except (AckbusError, OSError) as error:
            finding = bad(str(error), "see what else is bad")
        except Exception:
            finding = bad("what is stored is not what belongs there", "see what else is bad")
        yield replace(finding, check=name)
