"""Runs command lines of `bus`, each in a fork of this process, which has loaded it already.

Not one of the tests' modules: a process of its own, that never opens a bus, so that its forks have
nothing of another's. A request is a line of JSON on stdin, its answer the exit code on stdout; null
is a command that did not end in time.
"""

import contextlib
import functools
import json
import os
import select
import signal
import sys
import traceback
from typing import Any

import typer

from ackbus.cli import app, main

#: The code of a fork in which something else went wrong than the command.
BROKEN = 70


def serve() -> None:
    """Answers requests until there are no more; its own stdin and stdout are not the forks'."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w")
    typer.main.get_command = functools.cache(typer.main.get_command)
    program: Any = typer.main.get_command(app.app)
    dict(program.commands)  # loading them takes longer than most commands
    for line in requests:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)


def _answer(request: dict[str, object]) -> int | None:
    ended, held = os.pipe()  # its end is the end of the fork: nobody else has it
    pid = os.fork()
    if pid == 0:
        os.close(ended)
        _run(request)
    os.close(held)
    is_in_time = bool(select.select([ended], [], [], request["timeout_s"])[0])
    os.close(ended)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # also what it has left behind
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) if is_in_time else None


def _run(request: dict) -> None:
    """Becomes the command, as its script would start it."""
    code = BROKEN
    try:
        os.setsid()
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            fd = os.open(request[name], os.O_RDWR | os.O_CREAT, 0o600)
            os.dup2(fd, number)
            os.close(fd)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv = ["bus", *request["args"]]
        code = main()
        sys.stdout.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else BROKEN
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve()
