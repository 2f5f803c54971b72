"""The `bus` command: parses a line, calls the library, prints. Data on stdout, all else on stderr.

Nothing here decides what a bus does: code that other interfaces need too is in the other rooms.

typer defines the command line, in `app.py`. Loading it takes longer than publishing, so
`fast/hot.py` runs the plain forms of frequent commands, and hands everything else to typer. The
commands that git runs (`fast/git_drivers.py`) are not for people, and typer does not know them.
"""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .show.output import Output

__all__ = ["main"]


def main() -> int:
    """Run the command line of this process and return its exit code."""
    arguments = sys.argv[1:]
    # Garbage collection while modules load finds nothing, and takes a fifteenth of a command.
    gc.disable()
    from .ending import guarded, is_all_ended, leave
    from .inherited import put_right
    from .show.output import Output

    put_right()
    output = Output(arguments)
    call = _action(output, arguments)
    gc.freeze()
    gc.enable()
    code = guarded(output, call)
    # To an agent's program exit code 2 means "block": an error of ours must not cause that.
    if arguments[:1] == ["hook"]:
        from .fast.agent_hooks import GOES_ON

        code = 2 if code == GOES_ON else 0
    if "--exit-code" in arguments:
        from .options.service import exit_code, is_check

        code = exit_code(code) if is_check(arguments) else code
    if is_all_ended():
        leave(code)
    return code


def _action(output: Output, arguments: list[str]) -> Callable[[], int]:
    """Return the action of a command line, loaded."""
    from .fast import hot

    if call := hot.parse(output, arguments):
        return call
    if arguments and arguments[0] in ("git-clean", "git-merge", "git-textconv"):
        from .fast.git_drivers import driver

        return driver(output, arguments)
    from .app import run

    return lambda: run(output, arguments)
