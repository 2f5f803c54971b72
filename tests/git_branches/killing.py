"""Acts in a child that is killed (kill -9) at one of the times that it runs git.

A program before git on the PATH counts, and kills its parent before git runs, or after it has.
What git itself was about is killed in hooks and filters, which git runs in the midst of things.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

from ..sizes import size

_GIT = """\
#!/bin/sh
number=$(($(cat {count} 2>/dev/null) + 1))
echo $number >{count}
if [ $number = {fatal} ] && [ {when} = before ]; then kill -9 $PPID; exit 137; fi
{git} "$@"
code=$?
if [ $number = {fatal} ] && [ {when} = after ]; then kill -9 $PPID; fi
exit $code
"""

#: A hook or filter that kills git and whoever started it.
KILL_ALL = """\
#!/bin/sh
[ -e {once} ] || exit 0
rm {once}
git=$PPID
all=
while [ "$(cat /proc/$git/comm)" != python ] && [ $git -gt 1 ]; do
    all="$all $git"; git=$(cut -d' ' -f4 </proc/$git/stat)
done
kill -9 $git $all
"""


def killed_at_git(fatal: int, when: str, folder: Path, act: Callable[[], object]) -> bool:
    """Do something in a child that is killed at its n-th git; say whether there was such a one."""
    folder.mkdir(exist_ok=True)
    told = folder / "count"
    told.unlink(missing_ok=True)
    wrapper = folder / "git"
    git = shutil.which("git")
    wrapper.write_text(_GIT.format(count=told, fatal=fatal, when=when, git=git))
    wrapper.chmod(0o755)
    child = os.fork()
    if child == 0:
        try:
            os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
            act()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(3)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status == signal.SIGKILL


def kills(folder: Path, act: Callable[[], object], *, least: int) -> Iterator[tuple[int, str]]:
    """Kill an act at each of its gits in turn; yields after each kill, and once after none.

    By day before one and, a few later, after another; each in the nightly form.
    """
    moments = ((fatal, when) for fatal in count(1) for when in ("before", "after"))
    for fatal, when in islice(moments, 0, None, size(sample=11, whole=1)):
        died = killed_at_git(fatal, when, folder, act)
        yield fatal, when
        if not died:
            assert fatal > least, fatal
            return
