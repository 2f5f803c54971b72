"""The `bus` command: parses a line, calls the library, prints. Data on stdout, all else on stderr.

Nothing here decides what a bus does: what another door would need too stands in a room before.

typer defines the command line, in `app.py`. Loading it takes longer than publishing, so
`fast/hot.py` takes the plain forms of those that are run often, and hands everything else to it.
The commands that git runs (`fast/git_drivers.py`) are not for people, and not in it.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line of this process and return its exit code."""
    from .ending import guarded, leave
    from .fast import hot

    arguments = sys.argv[1:]
    call = hot.parse(arguments)
    # To an agent's program an exit code of 2 means "block": no trouble of ours may do that.
    is_hook = arguments[:1] == ["hook"]
    if call is not None:
        code = guarded(call)
        leave(0 if is_hook else code)
    if arguments and arguments[0] in ("git-clean", "git-merge", "git-textconv"):
        from .fast.git_drivers import driver

        leave(guarded(driver(arguments)))
    from .app import run

    code = guarded(lambda: run(arguments))
    return 0 if is_hook else code
