"""With any thing under any name of a bus directory: a clear line, no harm, loss or hang."""

import os
import tempfile
from pathlib import Path

import pytest

from ..conftest import RunBus
from ..sizes import case, sampled
from .table import (
    FILES,
    KINDS,
    NAMES,
    OF_RIGHTS,
    PRECIOUS,
    ROWS,
    SQLITE,
    Kind,
    Scene,
    check_unharmed,
    make_scene,
    try_all,
    try_as_another_user,
)


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A bus that each row has a copy of."""
    return make_scene(tmp_path_factory.mktemp("hostile") / "scene")


@pytest.fixture
def copy(scene: Scene, tmp_path: Path) -> Scene:
    return scene.copy(tmp_path / "scene")


#: Each check tries every fourth row, at rest and while the bus is open by turns: each kind and each
#: name meets both.
CASES = [
    case(
        *(name, kind, while_open),
        id=f"{name}-{kind.__name__}-{when}",
        by_day=(NAMES.index(name) + KINDS.index(kind)) % 8 == turn,
    )
    for name, kind in ROWS
    for while_open, when, turn in ((False, "at rest", 0), (True, "while open", 4))
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "while_open"), CASES)
def test_nothing_that_is_planted_does_harm(
    name: str, kind: Kind, while_open: bool, copy: Scene
) -> None:
    try_all(name, kind, copy, while_open=while_open)
    check_unharmed(copy)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("kind", sampled(OF_RIGHTS, every=2), ids=lambda kind: kind.__name__)
def test_what_a_user_may_not_read_is_told_in_a_line(kind: Kind, tmp_path: Path) -> None:
    """By a real second user: root is held to no mode."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        os.chmod(folder, 0o755)  # the folders of pytest are closed to that user
        scene = make_scene(Path(folder) / "scene")
        try_all("doorbell", kind, scene.copy(tmp_path / "once"), while_open=True)  # loads all
        rows = [(name, kind) for name in (*SQLITE, *FILES)]
        assert try_as_another_user(rows, scene) == []


COMMANDS = [
    ("archive --older-than 0s", "archive/000000000011.jsonl.zst.new"),
    *(
        ("publish note x --from ann", name)
        for name in ("doorbell", "bus.jsonl", "bus.index.json", "jsonl.lock", "background.lock")
    ),
    ("listen ann --drain -- true", "doorbell"),
    *((command, "bus.jsonl") for command in ("export", "import", "doctor --full", "stats")),
    *((command, "bus.index.json") for command in ("export", "git-textconv bus.jsonl")),
    ("search small", "search.db"),
    ("replay --from 1", "archive/000000000001.jsonl.zst"),
    ("doctor --repair --dry-run", "archive/000000000001.jsonl.zst"),
]


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize(("command", "name"), COMMANDS)
def test_commands_end_in_time_and_leave_the_victim_alone(
    command: str, name: str, kind: str, copy: Scene, run_bus: RunBus
) -> None:
    path = copy.bus / name
    path.unlink(missing_ok=True)
    path.symlink_to(copy.victim) if kind == "link" else os.mkfifo(path)
    done = run_bus(*command.split(), cwd=copy.bus, env={"BUS_DIR": str(copy.bus)})
    assert done.code in range(6), done
    assert "Traceback" not in done.err, done.err
    assert "unexpected" not in done.err, done.err
    assert copy.victim.read_bytes() == PRECIOUS
