"""docs/starts.md has each place that starts something, with what feeds it, and no other."""

import ast
from pathlib import Path

import pytest

from . import starts
from .rooms import Module, read_modules

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "starts.md"


def test_document_has_each_place_that_starts_something_and_no_other() -> None:
    assert starts.differences(read_modules(ROOT), DOCUMENT.read_text("utf-8")) == []


def test_no_row_of_the_document_is_overlooked() -> None:
    lines = [line for line in DOCUMENT.read_text("utf-8").splitlines() if line[:3] == "| `"]
    rows = starts.rows_of("\n".join(lines))
    assert len(lines) == len({line.split("|")[1] for line in lines}) <= len(rows)
    assert all((ROOT / path).is_file() for path, _ in rows)


STARTS = {
    "import subprocess\nsubprocess.run(words)": "subprocess.run",
    "import subprocess as s\ns.check_output(words)": "subprocess.check_output",
    "from subprocess import Popen as P\nP(words)": "subprocess.Popen",
    "def f():\n from os import execvpe\n execvpe(*words)": "os.execvpe",
    "import os\nos.posix_spawn(path, words, {})": "os.posix_spawn",
    "import os\nos.system(line)": "os.system",
    "import os\nstop = os.killpg": "os.killpg",
    "import os\nsend = partial(os.kill, pid)": "os.kill",
    "import signal\nsignal.pidfd_send_signal(fd, 9)": "signal.pidfd_send_signal",
    "import pty\npty.spawn(words)": "pty.spawn",
    "import webbrowser\nwebbrowser.open_new(url)": "webbrowser.open_new",
    "import socket\nsocket.create_connection(address)": "socket.create_connection",
    "with listener.accept() as one: one.connect(address)": ".connect",
    "loop.create_connection(Protocol, host)": ".create_connection",
    "out.sendto(data, path)": ".sendto",
    "process.send_signal(2)": ".send_signal",
    "from http.client import HTTPSConnection\nHTTPSConnection(host)": "http.client.HTTPSConnection",
    "import urllib.request\nurllib.request.urlopen(url)": "urllib.request.urlopen",
    "import asyncio\nasyncio.create_subprocess_shell(line)": "asyncio.create_subprocess_shell",
    "import asyncio\nasyncio.start_unix_server(f, path)": "asyncio.start_unix_server",
    "import multiprocessing\nmultiprocessing.Process(target=f)": "multiprocessing.Process",
    "import importlib\nimportlib.import_module(name)": "importlib.import_module",
    "import importlib.util\nimportlib.util.spec_from_file_location(n, p)": (
        "importlib.util.spec_from_file_location"
    ),
    "eval(text)": "eval",
    "__import__(name)": "__import__",
    "import runpy\nrunpy.run_path(path)": "runpy.run_path",
    "import ctypes\nctypes.CDLL(path)": "ctypes.CDLL",
    "import pickle\npickle.loads(data)": "pickle.loads",
    "connection.enable_load_extension(True)": ".enable_load_extension",
    "from ..workers.processes.run_process import run_process\nrun_process(words)": "run_process",
    "from .repositories import RepositoryPlace\n"
    "RepositoryPlace.around(folder)": "RepositoryPlace.around",
    "from . import repositories\nrepositories.repository_at(folder)": "repository_at",
    "from .repository import Repository as R\nR(folder)": "Repository",
    "make = functools.partial(OwnChild, words)": "OwnChild",
}


@pytest.mark.parametrize(("source", "name"), STARTS.items(), ids=STARTS.values())
def test_start_without_a_row_is_found(source: str, name: str) -> None:
    (wrong,) = starts.differences([_module(source)], "")
    assert wrong.startswith("bus/x.py:")
    assert wrong.endswith(f"`{name}` is in no row of its place")


HARMLESS = [
    "import subprocess\ndef f(p: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]: ...",
    "import subprocess\nexcept_ = subprocess.TimeoutExpired",
    "import socket\nname = socket.gethostname(), socket.AF_UNIX",
    "import signal\nsignal.signal(signal.SIGTERM, stop)",
    "self._database.connect()",
    "def f(requests):\n requests.claim(1)",
    "import re\nre.compile(text)",
    "self.compile(text)",
    "from importlib.metadata import version\nversion('ackbus')",
    "import marshal\nmarshal.dumps(message)",
    "from ..git.repository import Repository\ndef f(r: Repository): ...",
]


@pytest.mark.parametrize("source", HARMLESS)
def test_what_starts_nothing_needs_no_row(source: str) -> None:
    assert starts.differences([_module(source)], "") == []


TWO_KINDS = "import os\ndef ask(pid): os.kill(pid, 0)\ndef end(pid): os.kill(pid, 9)"


def test_row_of_a_function_covers_no_other_function() -> None:
    row = "| `bus/x.py:ask` | `os.kill` | rows | signal 0 |"
    assert starts.differences([_module(TWO_KINDS)], row) == [
        "bus/x.py:3: `os.kill` is in no row of its place"
    ]


def test_row_of_a_module_covers_what_no_row_of_a_function_does() -> None:
    rows = "| `bus/x.py:ask` | `os.kill` | a | b |\n| `bus/x.py` | `os.kill` | a | b |"
    assert starts.differences([_module(TWO_KINDS)], rows) == []


def test_row_covers_only_what_it_names() -> None:
    source = "import os\nos.kill(1, 0)\nos.system(line)"
    assert starts.differences([_module(source)], "| `bus/x.py` | `os.kill` | a | b |") == [
        "bus/x.py:3: `os.system` is in no row of its place"
    ]


@pytest.mark.parametrize(
    "row",
    [
        "| `bus/x.py` | `os.kill` `os.system` | a | b |",
        "| `bus/x.py` | `os.kill` | a | b |\n| `bus/y.py` | `os.system` | a | b |",
        "| `bus/x.py` | `os.kill` | a | b |\n| `bus/x.py:other` | `os.system` | a | b |",
    ],
)
def test_row_without_a_place_is_found(row: str) -> None:
    (wrong,) = starts.differences([_module("import os\nos.kill(1, 0)")], row)
    assert "there is no `os.system`" in wrong


@pytest.mark.parametrize(
    "rows",
    [
        "| `bus/x.py` | `os.kill` | | b |",
        "| `bus/x.py` | `os.kill` | a | |",
        "| `bus/x.py` | `os.kill` | a |",
        "| `bus/x.py` | `os.kill` | a | b |\n| `bus/x.py` | `os.system` | a | b |",
    ],
)
def test_row_that_says_nothing_or_twice_is_refused(rows: str) -> None:
    with pytest.raises(ValueError, match=r"a row needs|two rows"):
        starts.rows_of(rows)


def _module(source: str) -> Module:
    return Module(Path("bus/x.py"), source, ast.parse(source))
