"""The `bus` command: parses a line, calls the library, prints. Data on stdout, all else on stderr.

Nothing here decides what a bus does: what another door would need too stands in a room before.

typer defines the command line, in `app.py`. Loading it takes longer than publishing, so
`fast/hot.py` takes the plain forms of those that are run often, and hands everything else to it.
The commands that git runs (`fast/git_drivers.py`) are not for people, and not in it.
"""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]


def main() -> int:
    """Run the command line of this process and return its exit code."""
    arguments = sys.argv[1:]
    # Modules are no garbage: looking for some while they load takes a fifteenth of a command.
    gc.disable()
    from .ending import guarded, is_all_ended, leave
    from .inherited import put_right

    put_right()
    call = _action(arguments)
    gc.freeze()
    gc.enable()
    code = guarded(call)
    # To an agent's program an exit code of 2 means "block": no trouble of ours may do that.
    if arguments[:1] == ["hook"]:
        from .fast.agent_hooks import GOES_ON

        code = 2 if code == GOES_ON else 0
    if "--exit-code" in arguments:
        from .options.service import exit_code, is_check

        code = exit_code(code) if is_check(arguments) else code
    if is_all_ended():
        leave(code)
    return code


def _action(arguments: list[str]) -> Callable[[], int]:
    """Return the action of a command line, loaded."""
    from .fast import hot

    if call := hot.parse(arguments):
        return call
    if arguments and arguments[0] in ("git-clean", "git-merge", "git-textconv"):
        from .fast.git_drivers import driver

        return driver(arguments)
    from .app import run

    return lambda: run(arguments)
