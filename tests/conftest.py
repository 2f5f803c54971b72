"""Fixtures of every room: a bus, the installed command, waiting for a condition."""

import functools
import gc
import os
import shutil
import signal
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Protocol

import pytest
from hypothesis import HealthCheck, settings

from ackbus import Bus
from ackbus.export.jsonl import exporter

from .architecture import database_guard
from .command_server import PLAIN, CommandServer, shared_server

database_guard.install()

# Shells and nohup start what runs in the background with these ignored, and commands inherit that.
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

ROOT = Path(__file__).parents[1]
#: Seconds after which a command that has not ended fails its test.
COMMAND_TIMEOUT_S = 200

# No example that chance draws, and no slow moment of the machine, fails a test: derandomize draws
# the examples from the test itself, so that a failure in CI is a failure here; print_blob adds the
# @reproduce_failure line that goes straight to it.
settings.register_profile(
    "ackbus",
    derandomize=True,
    print_blob=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ackbus")


class RootIsNoTestPackage:
    """Keeps pytest from importing the root of the repository, which is ackbus, as a second copy."""

    @staticmethod
    def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Dir | None:
        return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None


def hear_ctrl_c() -> None:
    """Lets SIGINT interrupt this process, and those that it starts.

    A shell without job control starts what runs in the background deaf to it, and a program leaves
    that as it is: then no test could end a command by Ctrl-C.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    hear_ctrl_c()
    os.environ["BUS_KEYS_DIR"] = os.devnull  # whoever runs the tests may have keys, and would sign
    os.environ.pop(
        "PYTHONUNBUFFERED", None
    )  # output that nobody flushes would be seen all the same
    config.pluginmanager.register(RootIsNoTestPackage())


def pytest_unconfigure() -> None:
    """Removes this process's views of git: a worker of xdist ends without its exit handlers."""
    views = sys.modules.get("ackbus.git.sealed")
    if views is not None:
        views.remove_folder()


def pytest_collection_finish() -> None:
    """Spares every later collection of garbage the thousands of tests that wait for their turn."""
    if "httpx" in sys.modules:
        share_certificates()
    gc.collect()
    gc.freeze()


def share_certificates() -> None:
    """Spares each client of HTTP, most of which ask one server once, the world's certificates.

    To read them takes longer than many a test.
    """
    from httpx._transports import default

    default.create_ssl_context = functools.cache(default.create_ssl_context)


@pytest.fixture(autouse=True, scope="session")
def small_parts() -> Iterator[None]:
    """Lets `bus.jsonl` be cut into parts so small that few messages make several of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporter, "MIN_ROTATE_BYTES", 4096)
        yield


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty folder in which agents work; commands of ``run_bus`` run here."""
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture(scope="session")
def initialised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an empty bus, for copies: making one takes ten times longer."""
    path = tmp_path_factory.mktemp("initialised") / ".worker-state"
    Bus.init(path).close()
    return path


@pytest.fixture
def bus_dir(project: Path, initialised: Path) -> Path:
    """The directory of an initialised, empty bus, where a command in ``project`` finds it."""
    return Path(shutil.copytree(initialised, project / ".worker-state"))


@pytest.fixture
def bus(bus_dir: Path) -> Iterator[Bus]:
    """An open, empty bus."""
    opened = Bus.open(bus_dir)
    yield opened
    opened.close()


@dataclass(frozen=True)
class Ended:
    """The end of a command: its exit code and its output."""

    code: int
    out: str
    err: str


class RunBus(Protocol):
    """The type of the fixture ``run_bus``."""

    def __call__(
        self,
        *args: str | bytes | Path,
        stdin: str | bytes = b"",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ended: ...


@pytest.fixture
def bus_env(tmp_path: Path) -> dict[str, str]:
    """An environment for processes: a home of its own, no bus named, plain output."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("BUS_", "XDG_"))}
    home = tmp_path / "home"
    home.mkdir()
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{kept['PATH']}"
    return kept | PLAIN | {"HOME": str(home), "PATH": path}


@pytest.fixture(scope="session")
def command_server() -> CommandServer:
    """The process in whose forks commands run."""
    return shared_server()


@pytest.fixture
def run_bus(project: Path, bus_env: dict[str, str], command_server: CommandServer) -> RunBus:
    """Runs ``bus`` to its end, in ``project`` unless told otherwise.

    ``env`` adds to ``bus_env``. Output that is not UTF-8 comes with surrogate escapes.
    """

    def run(
        *args: str | bytes | Path,
        stdin: str | bytes = b"",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin.encode() if isinstance(stdin, str) else stdin)
            given.seek(0)
            code = command_server.run(
                [os.fsencode(arg) for arg in args],
                (given.fileno(), out.fileno(), err.fileno()),
                cwd=cwd or project,
                env=bus_env | dict(env or {}),
                timeout_s=COMMAND_TIMEOUT_S,
            )
            return Ended(code, _text(out), _text(err))

    return run


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="surrogateescape")


def wait_until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Returns as soon as ``condition()`` is true; fails when it is not within ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not true within {timeout_s} s: {condition}")
        time.sleep(0.005)
