"""A stand-in for an agent's program: it starts `bus mcp`, and writes down the lines that it reads.

Its arguments are the agent, the file for the lines, and a mode:

- `lines`: it takes text, and shows it, as at a prompt
- `draft`: the same, where a person has begun a line
- `asks`: it asks a question, takes each key for an answer, and shows none
- `edits`: it has started another program that reads the terminal
- `helped`: it has started itself again, as a helper
"""

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
    before = termios.tcgetattr(0)
    try:
        if mode == "asks":
            tty.setcbreak(0)  # before the test sees the question
        beside = {
            "edits": ["cat"],
            "helped": [sys.executable, "-c", "import time; time.sleep(60)"],
        }.get(mode)
        # Both are there before the test sees the prompt.
        other = None if beside is None else subprocess.Popen(beside)
        print({"draft": "> never mind", "asks": "Run rm -rf? [y/N/a]"}.get(mode, "> "), end="")
        sys.stdout.flush()
        if mode == "edits" and other is not None:
            other.wait()
        for line in iter(lambda: sys.stdin.read(1) if mode == "asks" else sys.stdin.readline(), ""):
            with Path(file).open("a") as lines:
                lines.write(line)
            print("> ", end="", flush=True)
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)
        server.terminate()


main(*sys.argv[1:])
