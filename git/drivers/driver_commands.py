"""The commands that git runs as drivers: a line for `sh` each, in the configuration of a clone.

The program may be gone when git runs them: a virtual environment moves, another user or a container
has another. So each takes the installed one if it starts, else `bus` on the PATH, else what keeps
git going without losing a line.
"""

from __future__ import annotations

import shlex

#: Runs the first program that starts; 126 and 127 are the shell's for one that can't.
_TRY = (
    'ackbus() {{ "$@" {words}; code=$?; case $code in 126|127) ;; *) exit $code ;; esac; }}; '
    "[ ! -x {program} ] || ackbus {program}; ! command -v bus >/dev/null || ackbus bus; "
)


def clean_command(program: str) -> str:
    """Return the clean filter; without a program git keeps what its index has, if it has any."""
    return _tried(_escaped(program), "git-clean %f") + "git cat-file blob :%f"


def merge_command(program: str) -> str:
    """Return the merge driver; without a program a person gets git's own markers."""
    return _tried(_escaped(program), "git-merge %O %A %B %P") + "git merge-file -q %A %O %B"


def textconv_command(program: str) -> str:
    """Return the diff driver, behind which git puts the file; without a program, that as it is."""
    tried = _tried(program, 'git-textconv "$file"')
    return f'show() {{ file=$1; {tried}cat -- "$1"; }}; show'


def _tried(program: str, words: str) -> str:
    return _TRY.format(program=shlex.quote(program), words=words)


def _escaped(program: str) -> str:
    """Return a path that git does not expand: `%f` would be a file."""
    return program.replace("%", "%%")
