"""A bus of a made-up version before this one, which this process can upgrade."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ..conftest import Ended, RunBus
from .made_up import make_older, upgradable


@pytest.fixture(scope="session")
def older_bus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a bus of that version, for copies."""
    return make_older(tmp_path_factory.mktemp("older") / ".worker-state")


@pytest.fixture
def old_dir(project: Path, older_bus: Path) -> Path:
    """The directory of a bus of that version, where a command in ``project`` finds it."""
    return Path(shutil.copytree(older_bus, project / ".worker-state"))


@pytest.fixture
def migrations(tmp_path: Path) -> Iterator[Path]:
    """The folder of the script that leads on from it."""
    with upgradable(tmp_path / "migrations"):
        yield tmp_path / "migrations"


#: `bus` with its script in the folder that the first argument names.
_BUS = """
import sys
from ackbus.schema.sqlite import versions
versions.MIGRATIONS = sys.argv.pop(1)
from ackbus.cli import main
sys.argv[0] = "bus"
sys.exit(main())
"""


@pytest.fixture
def newer_bus(project: Path, bus_env: dict[str, str], migrations: Path) -> RunBus:
    """Runs ``bus`` as ``run_bus`` does, where it can upgrade that version."""

    def run(
        *args: str | bytes | Path,
        stdin: str | bytes = b"",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _BUS, migrations, *args],
            input=stdin if isinstance(stdin, bytes) else stdin.encode(),
            capture_output=True,
            cwd=cwd or project,
            env=bus_env | dict(env or {}),
            timeout=60,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
