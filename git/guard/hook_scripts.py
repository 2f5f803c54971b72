"""The scripts of the guard's hooks. Each hands its hook on to the earlier one of the same name."""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass

#: The hooks in which the guard looks itself.
GUARDED = ("pre-commit", "pre-push")

#: The hooks that are always handed on, so that one that comes later runs too: what git does is the
#: same with a hook that does nothing as without it.
#:
#: Others are handed on where they are there when the guard is installed: the presence of
#: push-to-checkout and proc-receive changes what git does, and reference-transaction and
#: post-index-change would start a process for each change of a ref and of the index.
ALWAYS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch"),
    *("pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit"),
    *("pre-rebase", "post-checkout", "post-merge", "post-rewrite", "pre-push", "pre-auto-gc"),
    *("pre-receive", "update", "post-receive", "post-update", "sendemail-validate"),
    *("p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit"),
)

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

#: The exit code where a hook has gone whose absence git would not take for consent.
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
class Scripts:
    """The scripts of one installation.

    Attributes:
        earlier: the folder of the earlier hooks; a relative one counts from where git runs them.
        root: the work tree in which the guard is installed.
        mode: `block` or `warn`.
        bus_dir: the bus directory, where it can't be found from the repository.
    """

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
        bus_dir = self.bus_dir
        return _GUARD.format(
            python=shlex.quote(sys.executable),
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
