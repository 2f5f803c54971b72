"""The guard's hooks in a git repository: their scripts, installed and removed again.

A hook that is there runs by a script, at its own path. Where none is, a link leads to its place:
git starts nothing for it, and runs one that comes later by the link, until the next commit or push
puts a script there ([ADR 124](../docs/adr/0124-hooks-that-are-not-there-cost-nothing.md)).
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ..schema.bounded_read import read_at_most
from ..schema.directory.enclosure import Enclosure
from ..schema.errors import Refused
from .repository import CommandFailed, Repository
from .sealed import LOOKING, is_in_repository
from .work_tree import WorkTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from ..schema.directory.enclosure import EnclosedFile

# The setting `core.hooksPath` of a repository: the guard's folder, with the earlier value kept.

#: The name of the guard's folder, in the one that all work trees share.
FOLDER = "ackbus-hooks"

#: Where git looks for hooks. Beside it, what it is while the guard is installed, by which it is
#: still known to be ours where the repository has moved; and what it was before.
SETTING, OURS, _EARLIER = "core.hooksPath", "ackbus.guardHooks", "ackbus.earlierHooksPath"

#: The settings of a person and of the machine, over which the repository's own wins.
_BELOW = {"system", "global"}


class HooksPath:
    """The setting in the configuration that all work trees of a repository share.

    Attributes:
        own: the guard's folder.
    """

    def __init__(self, tree: WorkTree) -> None:
        self._tree = tree
        self._repository = Repository(tree.root)
        self.own = os.path.join(tree.common_dir, FOLDER)

    def is_ours(self) -> bool:
        """Whether the repository's own setting is the one that `set` has made."""
        local = self._own(SETTING)
        return local is not None and local == self._own(OURS)

    def earlier(self) -> str:
        """Return the folder where git would look without the guard.

        A relative one counts from the folder in which git runs the hook, as git has it.
        """
        name = _EARLIER if self.is_ours() else SETTING
        values = [value for scope, _, value in self._values(name) if scope not in _BELOW]
        if not values:
            values = [value for scope, _, value in self._values(SETTING) if scope in _BELOW]
        return values[-1] if values else os.path.join(self._tree.common_dir, "hooks")

    def check(self) -> None:
        """Refuse settings over which the repository's own would not win, or that can't be kept.

        Raises:
            Refused: there are some; the line says where.
        """
        config = os.path.join(self._tree.common_dir, "config")
        values = self._values(SETTING)
        if values and values[-1][0] not in _BELOW:
            _, origin, value = values[-1]
            path = os.path.join(self._tree.root, origin.removeprefix("file:"))
            if not origin.startswith("file:") or os.path.realpath(path) != os.path.realpath(config):
                raise Refused(
                    f"core.hooksPath is set by {origin}, which wins over {config}: set it there"
                    " instead, or nowhere"
                )
            if not value:
                raise Refused(
                    "core.hooksPath is empty: git would look for hooks at the root; unset it"
                )
        if len([scope for scope, *_ in values if scope == "local"]) > 1:
            raise Refused(f"{config} has several values of core.hooksPath: leave one of them")

    def set(self) -> None:
        """Name the guard's folder to git, and keep the repository's own earlier value."""
        if not self.is_ours():
            self._write(_EARLIER, self._own(SETTING))
        self._write(OURS, self.own)
        self._write(SETTING, self.own)

    def restore(self) -> None:
        """Put the earlier value back; one that somebody has set since stays."""
        if self.is_ours():
            self._write(SETTING, self._own(_EARLIER))
        for name in (_EARLIER, OURS):
            self._write(name, None)

    def _own(self, name: str) -> str | None:
        """Return the last value in the repository's own file, as it stands there."""
        try:
            value = self._repository.run("config", "--local", "--null", "--get", name)
        except CommandFailed:
            return None
        return os.fsdecode(value[:-1])

    def _values(self, name: str) -> list[tuple[str, str, str]]:
        """Return scope, origin and value of each setting; of several the last one counts."""
        words = ("--show-scope", "--show-origin", "--null", "--type=path", "--get-all", name)
        try:
            fields = os.fsdecode(self._repository.run("config", *words)).split("\0")
        except CommandFailed as error:
            if error.code == 1:  # there is none
                return []
            raise
        return list(zip(fields[0:-1:3], fields[1:-1:3], fields[2:-1:3], strict=True))

    def _write(self, name: str, value: str | None) -> None:
        if value is not None:
            self._repository.run("config", "--local", name, value)
        elif self._own(name) is not None:
            self._repository.run("config", "--local", "--unset", name)


# Hooks of the guard that git does not run any more: their path is absolute, and has moved.

#: How long git may take for a question, in seconds: a file that it reads may be a pipe.
_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class MovedHooks:
    """The guard's hooks in a repository that was moved or copied.

    Attributes:
        named: where git looks for them, by `core.hooksPath`.
        own: where they would be.
    """

    named: str
    own: str

    def __str__(self) -> str:
        """Return what is wrong, in a line."""
        return (
            f"core.hooksPath names {self.named}, and the guard's hooks of this repository belong at"
            f" {self.own}: it was moved or copied, and none of its hooks runs"
        )


def moved_hooks(folder: str) -> MovedHooks | None:
    """Return hooks of the guard at another place than the setting names; None: all is well.

    Git reads its settings, and runs nothing; the place that is named is not looked at.

    Args:
        folder: in a repository; outside of all, there are none.

    Raises:
        GitFailed: git can't say.
    """
    if not is_in_repository(folder):
        return None
    repository = Repository(folder, LOOKING, limit_s=_LIMIT_S)
    names = f"^({SETTING}|{OURS})$".replace(".", "\\.").lower()
    output = repository.run(
        *("config", "--local", "--null", "--get-regexp", names), accepted=(0, 1)
    )
    entries = (os.fsdecode(entry).partition("\n") for entry in output.split(b"\0")[:-1])
    settings = {name: value for name, _, value in entries}
    named = settings.get(SETTING.lower())
    if named is None or named != settings.get(OURS.lower()):
        return None  # not the guard's
    common_dir = os.path.join(folder, repository.path("--git-common-dir"))
    own = os.path.join(os.path.realpath(common_dir), FOLDER)
    return None if named == own else MovedHooks(named, own)


# The scripts of the guard's hooks. Each hands its hook on to the earlier one of the same name.

#: The hooks in which the guard looks itself.
GUARDED = ("pre-commit", "pre-push")

#: The hooks that are always handed on, so that one that comes later runs too: what git does is the
#: same with a hook that does nothing as without it.
ALWAYS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch"),
    *("pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit"),
    *("pre-rebase", "post-checkout", "post-merge", "post-rewrite", "pre-push", "pre-auto-gc"),
    *("pre-receive", "update", "post-receive", "post-update", "sendemail-validate"),
    *("p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit"),
)

#: The other hooks have a link, or a script where they are there: the presence of push-to-checkout
#: and proc-receive changes what git does, and a script for reference-transaction or
#: post-index-change is a process for each change of a ref or of the index.
RARE = ("push-to-checkout", "proc-receive", "reference-transaction", "post-index-change")

#: The link to the folder of the earlier hooks, through which the links of hooks lead: by that they
#: are known to be ours, whichever folder it is.
EARLIER = ".earlier"

#: A name of a hook. Samples, and what other tools keep beside hooks, have a dot.
HOOK_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

#: The second line of a script of ours, which identifies it.
MARK = "# The guard of ackbus: 'bus guard remove' takes it out, and leaves the hooks of others."

#: The earlier hook runs at its own path. A tool that runs this script from there would have it run
#: for ever: the marker ends that.
_START = """\
#!/bin/sh
{mark}
hook={hook}
runs="{name} $PWD $*"
[ "$ACKBUS_HOOK_RUNS" != "$runs" ] || exit 0
"""

#: For a new work tree git looks below the old one, and runs the hook in the new one.
_FROM_OLD_TREE = """\
[ -x "$hook" ] || case $1 in *[!0]*) ;; *) hook={hook} ;; esac
"""

_HAND_ON = """\
[ -x "$hook" ] || exit {missing}
export ACKBUS_HOOK_RUNS="$runs"
exec "$hook" "$@"
"""

#: The exit code where an earlier hook has vanished whose absence must not count as consent.
_MISSING = {"push-to-checkout": 1, "proc-receive": 1}

#: The interpreter that installed the hook knows ackbus; where it has gone, `bus` on the PATH may
#: do. -P keeps modules that lie in the repository out. Only exit code 3, a conflict, blocks: a
#: guard that can't look must not keep anybody from working.
_GUARD = """\
guard() {{
    if [ -x {python} ]; then
        {bus_dir}{python} -P -m ackbus.cli.guard_check {mode} "$@"
    elif command -v bus >/dev/null; then
        {bus_dir}bus guard check --mode={mode}{words}
    else
        echo "bus guard: ackbus is not installed here any more, so nothing was checked" >&2
    fi
    case $? in
        0) ;;
        3) exit 1 ;;
        *) echo "bus guard: nothing was checked, and nothing blocked" >&2 ;;
    esac
}}
"""

#: A hook has come where a link is: from now on it runs by a script, at its own path.
_TAKE_IN = """\
for later in {own}/*; do
    if [ -L "$later" ] && [ -x "$later" ] && [ -x {python} ]; then
        {python} -P -m ackbus.git.guard </dev/null >/dev/null 2>&1
        break
    fi
done
"""

#: The earlier hook may change what is staged, so it is first.
_PRE_COMMIT = """\
[ ! -x "$hook" ] || ACKBUS_HOOK_RUNS=$runs "$hook" "$@" || exit
guard
"""

#: Both read what is pushed. The guard, which waits for its end no longer than a while, hands it on;
#: where it has read nothing, the earlier hook reads for itself.
_PRE_PUSH = """\
if [ ! -x "$hook" ]; then
    guard "$1"
    exit 0
fi
pushed=$(guard "$1" --hand-on) || exit
export ACKBUS_HOOK_RUNS="$runs"
[ -n "$pushed" ] || exec "$hook" "$@"
printf '%s\\n' "$pushed" | "$hook" "$@"
"""


@dataclass(frozen=True, slots=True)
class GuardScripts:
    """The scripts of one installation.

    Attributes:
        own: the guard's folder.
        earlier: the folder of the earlier hooks; a relative one counts from where git runs them.
        root: the work tree in which the guard is installed.
        mode: `block` or `warn`.
        bus_dir: the bus directory, where it can't be found from the repository.
    """

    own: str
    earlier: str
    root: str
    mode: str
    bus_dir: str | None

    def of(self, name: str) -> bytes:
        """Return the script of a hook."""
        hook = shlex.quote(os.path.join(self.earlier, name))
        script = _START.format(mark=MARK, hook=hook, name=name)
        if name in GUARDED:
            script += self._guard(name) + (_PRE_COMMIT if name == "pre-commit" else _PRE_PUSH)
        else:
            if name == "post-checkout":
                path = os.path.join(self.root, self.earlier, name)
                script += _FROM_OLD_TREE.format(hook=shlex.quote(path))
            script += _HAND_ON.format(missing=_MISSING.get(name, 0))
        return os.fsencode(script)

    def _guard(self, name: str) -> str:
        bus_dir, python = self.bus_dir, shlex.quote(sys.executable)
        take_in = _TAKE_IN.format(own=shlex.quote(self.own), python=python)
        return take_in + _GUARD.format(
            python=python,
            mode=self.mode,
            words=' "--push=$1" ${2+"$2"}' if name == "pre-push" else "",
            bus_dir="" if bus_dir is None else f"BUS_DIR=${{BUS_DIR:-{shlex.quote(bus_dir)}}} ",
        )


def is_marked(path: str) -> bool:
    """Whether there is a file with the mark of the guard."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        second = file.read(200).split(b"\n")[1:2]
    return second == [MARK.encode()]


def is_link_of_ours(path: str) -> bool:
    """Whether there is a link of the guard to the place of an earlier hook."""
    return os.path.islink(path) and os.path.dirname(os.readlink(path)) == EARLIER


#: Where a hook of ours says what it does about a conflict: in words of `bus`.
_MODE = re.compile(r"--mode=(block|warn)\b")


#: How long another installation in the same repository is waited for, and between two tries, in
#: seconds; one takes less than a second.
_WAIT_S, _NAP_S = 10.0, 0.02


@dataclass(frozen=True, slots=True)
class GuardHook:
    """A hook in which the guard looks.

    Attributes:
        name: `pre-commit` or `pre-push`.
        path: its file.
        earlier: the file of the hook of that name that it runs, or None.
    """

    name: str
    path: str
    earlier: str | None


class GuardHooks:
    """The guard's hooks in one repository."""

    def __init__(self, tree: WorkTree) -> None:
        self._tree = tree
        self._root = tree.root
        self._common_dir = tree.common_dir
        self._setting = HooksPath(tree)
        self._files = Enclosure(tree.common_dir)
        #: Where git looks without the guard, as it is set, and from the root of this work tree.
        self._earlier = self._setting.earlier()
        self._earlier_folder = os.path.normpath(os.path.join(tree.root, self._earlier))

    def mode(self) -> str | None:
        """Return the mode of the installed hooks, `block` or `warn`; None without any."""
        for path in filter(is_marked, map(self._path, GUARDED)):
            with open(path, encoding="utf-8", errors="replace") as file:
                match = _MODE.search(read_at_most(file, path))
            if match is not None:
                return match[1]
        return None

    def install(self, mode: str, bus_dir: str | None = None) -> list[GuardHook]:
        """Install the hooks, or bring installed ones up to date. Safe to repeat.

        Args:
            mode: `block` or `warn`.
            bus_dir: the bus directory, where it can't be found from the repository; `BUS_DIR` in
                the environment still wins.

        Raises:
            Refused: `core.hooksPath` can't be set so that git goes by it; another tool has put a
                hook into the guard's folder; or that folder is a link; or the settings are another
                repository's; or another installation takes long. Nothing was changed.
        """
        self._tree.refuse_led_away()
        with self._alone():
            return self._install(mode, bus_dir)

    def _install(self, mode: str, bus_dir: str | None) -> list[GuardHook]:
        self._setting.check()
        self._refuse_others()
        scripts = GuardScripts(self._setting.own, self._earlier, self._root, mode, bus_dir)
        linked = {*ALWAYS, *RARE} if self._lead_to_earlier() else set()
        linked -= {*GUARDED, *self._executable()}
        written = {*ALWAYS, *self._executable()} - linked
        for name in sorted(linked):
            with self._spot(name) as spot:
                spot.link(os.path.join(EARLIER, name))
        for name in sorted(written):
            self._write(name, scripts.of(name))
        for name in self._ours() - linked - written:
            self._remove(name)
        if not linked:
            self._remove(EARLIER)
        self._setting.set()  # git goes by the scripts from here on
        return [self._hook(name) for name in GUARDED]

    def _lead_to_earlier(self) -> bool:
        """Make the link to the folder of the earlier hooks; return whether hooks can be linked.

        A relative folder is another one for each work tree.
        """
        if not os.path.isabs(self._earlier):
            return False
        with self._spot(EARLIER) as spot, suppress(OSError):  # a file system without links
            spot.link(self._earlier)
            return True
        return False

    def take_in(self) -> None:
        """Write the scripts of hooks that have come since, which git runs by links until then.

        Raises:
            Refused: the settings are another repository's, or another installation takes long.
        """
        self._tree.refuse_led_away()
        with self._alone():
            if not self._setting.is_ours():
                return
            scripts = GuardScripts(self._setting.own, self._earlier, self._root, "", None)
            for name in self._executable():
                if name not in GUARDED and is_link_of_ours(self._path(name)):
                    self._write(name, scripts.of(name))

    def remove(self) -> list[GuardHook]:
        """Restore `core.hooksPath`, and remove the hooks.

        An `install` that was killed is undone too.

        Returns:
            The removed hooks.

        Raises:
            Refused: another tool has put a hook into the guard's folder, and it would not run any
                more; or the settings are another repository's; or another installation takes long.
                Nothing was changed.
        """
        self._tree.refuse_led_away()
        with self._alone():
            return self._take_out()

    def _take_out(self) -> list[GuardHook]:
        self._refuse_others()
        ours = self._ours()
        self._setting.restore()  # git goes by the earlier hooks from here on
        for name in (*ours, EARLIER):
            self._remove(name)
        with suppress(OSError):  # what else is in it is not ours
            self._files.remove_empty_folder(self._setting.own)
        return [self._hook(name) for name in GUARDED if name in ours]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other installations out, which would take our new files for what a killed one left.

        The lock is on git's folder itself: no file is left behind.

        Raises:
            Refused: another program keeps it.
        """
        descriptor = os.open(self._common_dir, os.O_RDONLY | os.O_CLOEXEC)
        try:
            end_s = time.monotonic() + _WAIT_S
            while not _is_locked(descriptor):
                if time.monotonic() > end_s:
                    raise Refused(
                        f"another program has kept {self._common_dir} locked for {_WAIT_S:g} s, as"
                        " the guard does while it is installed; look for a stopped one"
                    )
                time.sleep(_NAP_S)
            yield
        finally:
            os.close(descriptor)

    def _refuse_others(self) -> None:
        """Refuse a folder that is a link, and hooks in it that are not ours."""
        own = self._setting.own
        if os.path.islink(own):
            raise Refused(f"{own} is a link; the guard needs a folder of its own there")
        for name in self._names(own):
            if HOOK_NAME.fullmatch(name) and not self._is_ours(name):
                raise Refused(
                    f"{self._path(name)} is a hook of another tool, in the guard's folder; move it"
                    f" to {self._earlier_folder}, from where the guard runs it as well"
                )

    def _executable(self) -> list[str]:
        """Return the names of the hooks that are there without the guard."""
        folder = self._earlier_folder
        paths = {name: os.path.join(folder, name) for name in self._names(folder)}
        return [
            name
            for name, path in paths.items()
            if HOOK_NAME.fullmatch(name) and os.path.isfile(path) and os.access(path, os.X_OK)
        ]

    def _ours(self) -> set[str]:
        """Return the names of the guard's files, also of those that another tool has renamed."""
        return {name for name in self._names(self._setting.own) if self._is_ours(name)}

    def _is_ours(self, name: str) -> bool:
        return is_link_of_ours(self._path(name)) or is_marked(self._path(name))

    def _names(self, folder: str) -> list[str]:
        return os.listdir(folder) if os.path.isdir(folder) else []

    def _path(self, name: str) -> str:
        return os.path.join(self._setting.own, name)

    def _spot(self, name: str) -> AbstractContextManager[EnclosedFile]:
        return self._files.spot(self._path(name), make=0o755, is_followed=False)

    def _write(self, name: str, script: bytes) -> None:
        with self._spot(name) as spot:
            spot.replace(script, mode=0o755, over_link=True)

    def _remove(self, name: str) -> None:
        with self._files.spot(self._path(name), is_followed=False) as spot:
            if spot.folder is None:
                return
            spot.remove_link()
            if spot.look() is not None:
                spot.remove()

    def _hook(self, name: str) -> GuardHook:
        earlier = os.path.join(self._earlier_folder, name)
        return GuardHook(name, self._path(name), earlier if os.path.lexists(earlier) else None)


def _is_locked(descriptor: int) -> bool:
    """Take the lock on a folder; say whether it was taken, or can't be had in its file system."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems lock no folders
        return True
    return True


if __name__ == "__main__":  # as the scripts have it
    GuardHooks(WorkTree.around(os.getcwd())).take_in()
