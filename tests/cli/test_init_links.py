"""bus init where `.worker-state` is a link, which may have come with a clone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ..conftest import RunBus

LINKS: dict[str, Callable[[Path, Path], None]] = {
    "a folder outside": lambda link, outside: link.symlink_to(outside),
    "the folder above": lambda link, outside: link.symlink_to(".."),
    "a folder within": lambda link, outside: link.symlink_to(".git"),
    "by another link": lambda link, outside: _by_another(link, outside),
    "nothing": lambda link, outside: link.symlink_to(outside / "none"),
    "a file": lambda link, outside: link.symlink_to(outside / "file"),
    "itself": lambda link, outside: link.symlink_to(link.name),
    "by the system": lambda link, outside: link.symlink_to(f"/proc/self/root{outside}"),
}


def _by_another(link: Path, outside: Path) -> None:
    (link.parent / "between").symlink_to(outside)
    link.symlink_to("between")


def everything(folder: Path) -> set[tuple[Path, int]]:
    return {(path, path.lstat().st_mode) for path in folder.rglob("*")}


@pytest.mark.parametrize("kind", LINKS)
def test_no_bus_is_made_where_a_link_leads(run_bus: RunBus, tmp_path: Path, kind: str) -> None:
    clone, outside = tmp_path / "all" / "clone", tmp_path / "all" / "outside"
    (clone / ".git").mkdir(parents=True)
    outside.mkdir(mode=0o755)
    (outside / "file").touch()
    LINKS[kind](clone / ".worker-state", outside)
    before = everything(tmp_path / "all")
    refused = run_bus("init", cwd=clone)
    assert refused.code == 3
    assert ".worker-state is a link, which may have come with a clone, to '" in refused.err
    assert everything(tmp_path / "all") == before


def test_a_named_link_is_followed_and_what_is_behind_it_is_used_only_if_named_or_trusted(
    run_bus: RunBus, project: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project / ".worker-state").symlink_to(elsewhere)
    assert run_bus("init", "--dir", ".worker-state").code == 0
    assert (elsewhere / "bus.db").exists()
    for line in (["init"], ["publish", "t", "x", "--from", "a"], ["doctor", "--repair"]):
        refused = run_bus(*line)
        assert (refused.code, refused.err.count("\n")) == (1, 1)
        assert f".worker-state is a link out of its project, to '{tmp_path}/els" in refused.err
        assert f"or run 'bus trust add {project / '.worker-state'}'" in refused.err
    assert run_bus("publish", "t", "x", "--from", "a", "--dir", ".worker-state").code == 0
    assert run_bus("trust", "add", project).code == 0
    assert "there is a bus in" in run_bus("init").out
    assert run_bus("read").code == 0
