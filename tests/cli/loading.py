"""Which modules a command loads, in a process of its own."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

#: The modules that an editable install loads to find this package, which is no command's doing.
OF_EDITABLE = "pathlib, importlib.machinery" * any(
    name.startswith("__editable__") for name in sys.modules
)

#: Runs a command line, and prints the modules that are there then, but those of a first import.
_PROGRAM = """\
import os, sys
sys.stdout.reconfigure(line_buffering=True)
{first}
before = set(sys.modules) if {first!r} else set()
os._exit = lambda code: sys.exit(code)
sys.argv = ['bus', *{arguments!r}]
from ackbus.cli import main
try: main()
finally: print('\\n'.join(sorted(set(sys.modules) - before)), file=sys.stderr)
"""


def loaded_by(
    arguments: Sequence[str], cwd: Path, env: Mapping[str, str], *, besides: str = ""
) -> tuple[set[str], str]:
    """The modules that a command loads, besides those of an import, and what it prints."""
    first = f"import {besides}" if besides else ""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(first=first, arguments=list(arguments))],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=env,
        check=False,
    )
    return set(done.stderr.split()), done.stdout
