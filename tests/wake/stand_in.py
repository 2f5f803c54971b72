"""A stand-in for an agent's program: it starts `bus mcp`, and writes down the lines that it reads.

Its arguments are the agent, the file for the lines, and a mode:

- `lines`: it takes text, and shows it, as at a prompt
- `draft`: the same, where a person has begun a line
- `asks`: it asks a question, takes each key for an answer, and shows none
- `edits`: it has started another program that reads the terminal
- `edits-aside`: that program has opened the terminal by itself
- `stops`: it shows the first key that it is sent when it has been stopped
- `helped`: it has started itself again, as a helper
- `foreign`: it has become another user's, and its server has not
"""

import os
import signal
import subprocess
import sys
import sysconfig
import termios
import tty
from pathlib import Path


def main(agent: str, file: str, mode: str) -> None:
    bus = Path(sysconfig.get_path("scripts"), "bus")
    server = subprocess.Popen(
        [bus, "mcp", "--agent", agent], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    if mode == "foreign":
        become_foreign(server)
    before = termios.tcgetattr(0)
    try:
        if mode in ("asks", "stops"):
            tty.setcbreak(0)  # before the test sees the question
        beside = {
            "edits": ["cat"],
            "edits-aside": ["cat"],
            "helped": [sys.executable, "-c", "import time; time.sleep(60)"],
        }.get(mode)
        # Both are there before the test sees the prompt.
        aside = Path("/dev/tty").open() if mode == "edits-aside" else None  # noqa: SIM115
        other = None if beside is None else subprocess.Popen(beside, stdin=aside)
        print({"draft": "> never mind", "asks": "Run rm -rf? [y/N/a]"}.get(mode, "> "), end="")
        sys.stdout.flush()
        if mode.startswith("edits") and other is not None:
            other.wait()
        if mode == "stops":
            stop(sys.stdin.read(1))
        for line in iter(lambda: sys.stdin.read(1) if mode == "asks" else sys.stdin.readline(), ""):
            with Path(file).open("a") as lines:
                lines.write(line)
            print("> ", end="", flush=True)
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)
        server.terminate()


def become_foreign(server: "subprocess.Popen[bytes]") -> None:
    """Makes this process another user's; its server goes on."""
    assert server.stdin is not None
    os.set_inheritable(server.stdin.fileno(), True)
    os.setuid(65_534)
    os.execv("/bin/sh", ["sh", "-c", "printf '> '; read -r line"])


def stop(key: str) -> None:
    """Stops this process; another shows the key when that is so."""
    wait = f"until grep -q '^State:.T' /proc/{os.getpid()}/status; do sleep 0.01; done"
    subprocess.Popen(["sh", "-c", f'{wait}; printf "\\n%s\\n" "$1"', "sh", key])
    os.kill(os.getpid(), signal.SIGSTOP)


main(*sys.argv[1:])
