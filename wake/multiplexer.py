"""Calls of the programs that keep terminals, tmux and screen."""

from __future__ import annotations

import os
import subprocess

from ..schema.children import run_child
from .errors import NotWoken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN = {"LC_ALL": "C.UTF-8", "TERM": "dumb"}

#: How long one may take to answer, in seconds.
_PATIENCE_S = 5.0


def ask(agent: str, *line: str, told: Mapping[str, str] | None = None) -> str:
    """Run a command of tmux or screen, and return its output.

    Args:
        agent: the agent that is being woken.
        line: the command line.
        told: further environment variables.

    Raises:
        NotWoken: it failed.
    """
    try:
        done = run_child(
            line,
            limit_s=_PATIENCE_S,
            env={"PATH": os.environ.get("PATH", os.defpath), **_PLAIN, **(told or {})},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotWoken(agent, f"{line[0]} can't be asked: {error}") from error
    said = done.stdout.decode(errors="replace")
    if done.returncode:
        why = (done.stderr.decode(errors="replace").strip() or said.strip()).partition("\n")[0]
        raise NotWoken(agent, f"{line[0]} refuses: {why or f'exit status {done.returncode}'}")
    return said
