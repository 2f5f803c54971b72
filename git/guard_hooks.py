"""The guard's hooks in a git repository: installed beside earlier hooks, and removed again.

A hook that was there before keeps working: it is renamed, and the guard's runs it first, with the
same arguments and input; where it fails, its exit code is the hook's.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass

from ..schema.bounded_read import read_at_most
from ..schema.directory.enclosure import Enclosure
from ..schema.errors import Refused
from .text_file import FRESH, write_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .work_tree import WorkTree

#: The hooks.
HOOKS = ("pre-commit", "pre-push")

#: The ending of the name of an earlier hook; git runs no file of such a name.
FORMER = ".before-guard"

#: The second line of a hook of ours, which identifies it.
_MARK = "# The guard of ackbus: 'bus guard remove' takes it out and puts back what was here before."

#: Where a hook of ours says what it does about a conflict.
_MODE = re.compile(r"--mode=(block|warn)\b")

# A hook that was there sees its own name in `$0`, for Husky's tell by that what they are: a script
# of `sh` is read by one that is called so; no other interpreter can be told a name without harm.
# One that is a link is run, for it may look beside what `$0` leads to.
#
# A tool that keeps ours under another name, and runs it, would have it run again: the marker ends
# that. The interpreter that installed the hook knows ackbus; where it has gone, `bus` on the PATH
# may do. -P keeps modules that lie in the repository out. Only exit code 3, a conflict, blocks: a
# guard that can't look must not keep anybody from working.
_SCRIPT = """\
#!/bin/sh
{mark}
[ "$ACKBUS_GUARD_RUNS" != "{name} $PWD" ] || exit 0
former="$(dirname -- "$0")/{name}{former}"
{read}if [ -x "$former" ]; then
    export ACKBUS_GUARD_RUNS="{name} $PWD"
    first=; [ -L "$former" ] || IFS= read -r first <"$former"
    case $first in
        '#!/bin/sh' | '#! /bin/sh' | '#!/usr/bin/env sh' | '#!/bin/sh -e')
            {give}${{first#*!}} -c 'hook=$1; shift; . "$hook"' "$0" "$former" "$@" || exit ;;
        *) {give}"$former" "$@" || exit ;;
    esac
    unset ACKBUS_GUARD_RUNS
fi
if [ -x {python} ]; then
    set -- {python} -P -m ackbus.cli.guard_check {mode}{remote}
elif command -v bus >/dev/null; then
    set -- bus guard check --mode={mode}{push}
else
    echo "bus guard: ackbus is not installed here any more, so nothing was checked" >&2
    exit 0
fi
{give}{bus_dir}"$@"
case $? in
    0) exit 0 ;;
    3) exit 1 ;;
    *) echo "bus guard: nothing was checked, and nothing blocked" >&2; exit 0 ;;
esac
"""

# A pre-push hook reads what is pushed, and so does the one before it.
_READ = """\
input=$(cat)
input() { [ -z "$input" ] || printf '%s\\n' "$input"; }
"""


@dataclass(frozen=True, slots=True)
class GuardHook:
    """A hook of ours.

    Attributes:
        name: `pre-commit` or `pre-push`.
        path: its file.
        former: the file of the hook that was there before, or None.
    """

    name: str
    path: str
    former: str | None


class GuardHooks:
    """The guard's hooks in one repository."""

    def __init__(self, tree: WorkTree) -> None:
        self._folder = tree.hooks
        self._setting = tree.hooks_setting
        self._roots = (tree.root, tree.main_root)
        #: Whether the hooks serve other repositories too.
        self.are_shared = not any(
            self._folder.startswith(folder.rstrip("/") + "/") for folder in self._roots
        )

    @property
    def are_by_tree(self) -> bool:
        """Whether each linked work tree looks for hooks in a folder of its own."""
        return bool(self._setting) and not os.path.isabs(self._setting or "")

    def mode(self) -> str | None:
        """Return the mode of the installed hooks, `block` or `warn`; None without any."""
        for hook in self.installed():
            with open(hook.path, encoding="utf-8", errors="replace") as file:
                found = _MODE.search(read_at_most(file, hook.path))
            if found is not None:
                return found[1]
        return None

    def install(self, mode: str, bus_dir: str | None = None) -> list[GuardHook]:
        """Install the hooks, or bring installed ones up to date. Safe to repeat.

        Args:
            mode: `block` or `warn`.
            bus_dir: the bus directory, where it can't be found from the repository; `BUS_DIR` in
                the environment still wins.

        Raises:
            Refused: there is a hook, and one of before the guard too; another tool keeps one of
                the guard's under another name; or hooks are turned off by a `core.hooksPath` that
                is not a folder. Nothing was changed.
        """
        if self._setting == "":
            raise Refused("core.hooksPath is empty: git would look for hooks at the root; unset it")
        if os.path.lexists(self._folder) and not os.path.isdir(self._folder):
            raise Refused(f"{self._folder} is not a folder: core.hooksPath turns hooks off here")
        self._refuse_links()
        self._refuse_renamed()
        for name in HOOKS:
            hook = self._hook(name)
            if hook.former and os.path.lexists(hook.path) and not _is_ours(hook.path):
                raise Refused(
                    f"{hook.path} is not a hook of the guard, and {hook.former} is there as well;"
                    " make one of the two, without that ending"
                )
        os.makedirs(self._folder, exist_ok=True)
        paths = [self._hook(name).path for name in HOOKS]
        # All that can fail comes before the first rename, which disables an earlier hook.
        scripts = [
            write_beside(path, _script(name, mode, bus_dir), 0o755)
            for name, path in zip(HOOKS, paths, strict=True)
        ]
        for script, path in zip(scripts, paths, strict=True):
            if os.path.lexists(path) and not _is_ours(path):
                os.rename(path, path + FORMER)
            os.replace(script, path)
        return self.installed()

    def remove(self) -> list[GuardHook]:
        """Remove the hooks, and put back earlier ones.

        An `install` that was killed may have left a renamed hook without ours: it is put back,
        too.

        Returns:
            The removed hooks, and those whose former ones were put back.
        """
        self._refuse_links()
        hooks = [self._hook(name) for name in HOOKS]
        found = [
            hook
            for hook in hooks
            if _is_ours(hook.path) or (hook.former and not os.path.lexists(hook.path))
        ]
        for hook in found:
            if hook.former:
                os.replace(hook.former, hook.path)
            else:
                os.unlink(hook.path)
        for hook in hooks:
            if _is_ours(hook.path + FRESH):
                os.unlink(hook.path + FRESH)
        return found

    def installed(self) -> list[GuardHook]:
        """Return the installed hooks of ours."""
        return [hook for hook in map(self._hook, HOOKS) if _is_ours(hook.path)]

    def _refuse_links(self) -> None:
        """Refuse a folder in the project that a link leads out of it."""
        for root in self._roots:
            if self._folder.startswith(root.rstrip("/") + "/"):
                with Enclosure(root).spot(os.path.join(self._folder, HOOKS[0] + FRESH)):
                    return

    def _refuse_renamed(self) -> None:
        names = os.listdir(self._folder) if os.path.isdir(self._folder) else []
        own = {*HOOKS, *(name + FRESH for name in HOOKS)}
        for path in (os.path.join(self._folder, name) for name in names if name not in own):
            if _is_ours(path):
                raise Refused(
                    f"{path} is a hook of the guard that another tool has renamed and may run;"
                    " delete it first, or leave all as it is"
                )

    def _hook(self, name: str) -> GuardHook:
        path = os.path.join(self._folder, name)
        former = path + FORMER
        return GuardHook(name, path, former if os.path.lexists(former) else None)


def _is_ours(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(200).split(b"\n")[1:2] == [_MARK.encode()]


def _script(name: str, mode: str, bus_dir: str | None) -> str:
    reads = name == "pre-push"
    return _SCRIPT.format(
        mark=_MARK,
        name=name,
        former=FORMER,
        read=_READ if reads else "",
        give="input | " if reads else "",
        python=shlex.quote(sys.executable),
        mode=mode,
        remote=' "$1"' if reads else "",
        push=' --push="$1"' if reads else "",
        bus_dir="" if bus_dir is None else f"BUS_DIR=${{BUS_DIR:-{shlex.quote(bus_dir)}}} ",
    )
