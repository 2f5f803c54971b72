"""Files of a new work tree beside those of git: copies from the main one, a set-up command.

Both come of the user. A file that is in the new tree already stays as it is.
"""

from __future__ import annotations

import glob
import os
import stat

from ...schema.directory.enclosure import Enclosure
from ...schema.errors import InvalidInput, Refused, shown
from ..limited import ProgramNotStarted, run_guarded
from ..repository import GitFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...workers.processes.stop_switch import StopSwitch


class SetupFailed(GitFailed):
    """The set-up command of a new work tree failed, or reached its time limit."""


def check_copies(main: str, patterns: Sequence[str]) -> None:
    """Check the globs of files to copy.

    Raises:
        InvalidInput: a pattern leads out of the main work tree, or into `.git`.
    """
    for pattern in patterns:
        if not pattern or os.path.isabs(pattern) or {"..", ".git"} & set(pattern.split("/")):
            raise InvalidInput(f"{shown(pattern)} is no glob of files below {main}")


def copy_files(main: str, tree: str, patterns: Sequence[str]) -> list[str]:
    """Copy files of the main work tree that git does not have, as `.env`; return their names.

    Args:
        main: the main work tree.
        tree: the new one.
        patterns: globs below the main one; `**` is any number of folders.

    Raises:
        InvalidInput: a pattern leads out of the main work tree, or into `.git`.
        Refused: a file can't be copied, or a link on its way leaves its work tree.
    """
    check_copies(main, patterns)
    copied = []
    for pattern in patterns:
        found = glob.glob(pattern, root_dir=main, recursive=True, include_hidden=True)
        copied += [name for name in sorted(found) if _copy(main, tree, name)]
    return copied


def _copy(main: str, tree: str, name: str) -> bool:
    source, target = os.path.join(main, name), os.path.join(tree, name)
    is_of_git = ".git" in name.split("/")
    if is_of_git or not os.path.isfile(source) or os.path.lexists(target):
        return False
    try:
        # The branch may have a link there: neither side of the copy leaves its work tree.
        with Enclosure(main).spot(name) as there, Enclosure(tree).spot(name, make=0o777) as spot:
            found, data = there.look(), there.read()
            if found is not None and data is not None:
                spot.replace(data, mode=stat.S_IMODE(found.st_mode))
    except OSError as error:
        raise Refused(f"{source} can't be copied to {tree}: {error.strerror}") from error
    return True


def run_setup(
    command: str | Sequence[str],
    tree: str,
    environment: Mapping[str, str],
    limit_s: float,
    stop: StopSwitch | None = None,
) -> None:
    """Run the set-up in a new work tree: a line for the shell, or the words of a command.

    Raises:
        SetupFailed: it failed, can't be started, or reached its limit.
        ProgramStopped: the switch was thrown before it had ended.
    """
    words = ("sh", "-c", command) if isinstance(command, str) else command
    shell = command if isinstance(command, str) else " ".join(command)
    try:
        ended = run_guarded(words, folder=tree, environment=environment, limit_s=limit_s, stop=stop)
    except ProgramNotStarted as error:
        raise SetupFailed(f"set-up {shown(shell)} can't be started: {error}") from error
    if ended is None:
        raise SetupFailed(f"set-up {shown(shell)} has not ended within {limit_s:g} s")
    if ended.code:
        said = (ended.err or ended.out).decode("utf-8", "replace").strip().splitlines()
        last = f": {said[-1]}" if said else ""
        raise SetupFailed(f"set-up {shown(shell)} failed with exit code {ended.code}{last}")
