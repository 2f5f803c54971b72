"""Exit codes for monitors: 0 well, 1 look, 2 broken, and 3 for everything that tells neither.

Errors have the same codes elsewhere. So the answer of a check has a code of its own until the
command ends, and every other end is "not known": wrong usage, and a bus that can't be read, too.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ...schema.findings import GRADES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_OPTION = "--exit-code"

ExitCode = Annotated[
    bool,
    typer.Option(_OPTION, help="Exit as monitors expect: 0 well, 1 look, 2 broken, 3 not known."),
]

#: The commands with that option, as words of a command line begin.
_CHECKS = ("automation", "doctor")

#: Added to the code of an answer until the command ends.
_ANSWERED = 64

#: The exit code of what is not known.
_NOT_KNOWN = 3


def answer(states: Iterable[str], *, is_broken: bool = False) -> int:
    """Return what a command returns for findings of these states."""
    return _ANSWERED + max([2 if is_broken else 0, *(GRADES[state] for state in states)])


def is_check(arguments: list[str]) -> bool:
    """Whether a command line asks for these codes, or would if its command were spelt rightly."""
    if _OPTION not in arguments[: arguments.index("--") if "--" in arguments else None]:
        return False
    from ..catalogue import MODULES

    return arguments[0] in _CHECKS or arguments[0] not in MODULES


def exit_code(code: int) -> int:
    """Return the exit code of a check that has ended with a code; signals keep theirs."""
    if code >= 128:
        return code
    return code - _ANSWERED if _ANSWERED <= code <= _ANSWERED + 2 else _NOT_KNOWN
