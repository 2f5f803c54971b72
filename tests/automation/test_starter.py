"""`bus automation init`: a small folder that works, and what stands in its way."""

import json
import os
import socket
from pathlib import Path

import pytest

from ..conftest import RunBus, wait_until
from .service_process import ServiceProcess

FILES = (
    "config.yaml",
    "secrets.env",
    ".gitignore",
    "plugins/hello/manifest.yaml",
    "plugins/hello/run.sh",
)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    files = (each for each in sorted(folder.rglob("*")) if each.is_file())
    return {str(each.relative_to(folder)): each.read_bytes() for each in files}


@pytest.mark.slow
def test_a_folder_that_was_made_works_at_once(run_bus: RunBus, tmp_path: Path) -> None:
    folder = tmp_path / "with a space"
    made = run_bus("automation", "init", folder)
    assert (made.code, f"start --config '{folder}'" in made.out) == (0, True)
    checked = run_bus("config", "check", folder)
    assert (checked.code, checked.out, checked.err) == (0, f"{folder} is right\n", "")
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("127.0.0.1:8081", f"127.0.0.1:{free_port()}"))
    assert run_bus("config", "lock", folder).code == 0
    with ServiceProcess(folder).ready() as service, service.open() as bus:
        ended = {"type": "plugin.ended"}
        wait_until(lambda: len([*bus.read(**ended)]) == 2)  # the schedule, and the route from it
        assert {each.from_agent for each in bus.read(**ended)} == {"hello", "listener"}
        assert service.run("webhook", "test", "hello").returncode == 0
        wait_until(lambda: len([*bus.read(**ended)]) == 3)
        status = service.run("automation", "status", "--exit-code", "--json")
        assert (status.returncode, json.loads(status.stdout)["findings"]) == (0, [])


@pytest.mark.requirement("D-153")
def test_its_secret_is_its_own_and_all_is_for_its_owner_alone(
    run_bus: RunBus, project: Path
) -> None:
    for name in ("one", "two"):
        assert run_bus("automation", "init", name).code == 0
    secrets = [project / name / "secrets.env" for name in ("one", "two")]
    assert secrets[0].read_text() != secrets[1].read_text()
    there = [project / "one", *(project / "one").rglob("*")]
    modes = {path.name: os.stat(path).st_mode & 0o777 for path in there}
    open_to_owner = {"one", "plugins", "hello", "run.sh"}  # folders, and a program
    assert modes == {name: 0o700 if name in open_to_owner else 0o600 for name in modes}  # D-153
    ignored = (project / "one/.gitignore").read_text()
    assert all(f"/{name}\n" in ignored for name in ("data/", "secrets.env", ".checksums"))
    assert secrets[0].read_text()[-20:-1] not in run_bus("config", "show", "--config", "one").out


@pytest.mark.parametrize(
    ("words", "variable", "expected"),
    [
        ((), None, "automation"),
        (("here",), None, "here"),
        (("deep/below",), None, "deep/below"),
        (("--config", "named"), None, "named"),
        ((), "told", "told"),
        (("here",), "told", "here"),
    ],
)
def test_the_folder_is_the_one_that_is_named(
    run_bus: RunBus, project: Path, words: tuple[str, ...], variable: str | None, expected: str
) -> None:
    env = {} if variable is None else {"BUS_CONFIG": variable}
    done = run_bus("automation", "init", "--json", *words, env=env)
    told = json.loads(done.out)
    assert (done.code, told["dir"]) == (0, str(project / expected))
    assert set(told["files"]) == {str(project / expected / name) for name in FILES}
    assert set(tree(project / expected)) == {*FILES, ".checksums"}


def test_a_configuration_is_never_overwritten(run_bus: RunBus, project: Path) -> None:
    assert run_bus("automation", "init").code == 0
    before = tree(project / "automation")
    again = run_bus("automation", "init")
    assert (again.code, "there is a configuration already" in again.err) == (3, True)
    assert tree(project / "automation") == before
    assert run_bus("automation", "init", "a", "--config", "b").code == 2


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling", "pipe", "link above"])
def test_nothing_that_is_there_is_written_over_or_written_through(
    run_bus: RunBus, project: Path, tmp_path: Path, name: str, kind: str
) -> None:
    place, outside = project / "automation" / name, tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine\n")
    place.parent.mkdir(parents=True)
    if kind == "file":
        place.write_text("mine\n")
    elif kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "link above" and "/" in name:
        place.parent.rmdir()
        place.parent.symlink_to(outside)
    else:
        place.symlink_to(outside / ("file" if kind == "link" else "nothing"))
    done = run_bus("automation", "init")
    assert (done.code, done.err.count("\n")) == (3, 1)
    assert tree(outside) == {"file": b"mine\n"}
    assert not (project / "automation" / "config.yaml").is_file() or name == "config.yaml"


@pytest.mark.parametrize("kept", range(len(FILES) + 1))
def test_what_broke_off_is_finished(run_bus: RunBus, project: Path, kept: int) -> None:
    folder = project / "automation"
    assert run_bus("automation", "init").code == 0
    whole = tree(folder)
    for name in (".checksums", "config.yaml", *FILES[1:][::-1])[: kept + 1]:
        (folder / name).unlink()
    if kept == 0:  # all but the seal: there is a configuration
        assert run_bus("automation", "init").code == 3
        return
    assert run_bus("automation", "init").code == 0
    if kept < len(FILES):
        del whole[".checksums"]
        assert {name: each for name, each in tree(folder).items() if name in whole} == whole
    assert run_bus("config", "check", folder).code == 0


NEEDING = (
    ("automation", "start"),
    ("automation", "status"),
    ("automation", "reload"),
    ("automation", "stop"),
    ("automation", "run", "x"),
    ("automation", "plugins"),
    ("automation", "queue"),
    ("automation", "logs"),
    ("automation", "breaker", "x"),
    ("automation", "api", "/jobs"),
    ("automation", "reset", "x"),
    ("config", "check"),
    ("config", "show"),
    ("config", "lock"),
    ("config", "diff"),
    ("plugin", "list"),
    ("plugin", "run", "x"),
    ("plugin", "add", "feed"),
    ("schedule", "list"),
    ("schedule", "history", "x"),
    ("pipeline", "list"),
    ("pipeline", "run", "x"),
    ("route", "test", "--from", "1"),
    ("webhook", "list"),
)


@pytest.mark.parametrize("words", NEEDING, ids=" ".join)
def test_without_a_configuration_the_error_names_what_makes_one_and_no_other_product(
    run_bus: RunBus, project: Path, words: tuple[str, ...]
) -> None:
    done = run_bus(*words, env={"HOME": str(project)})
    told = done.out + done.err
    assert (done.code != 0, told.count("\n")) == (True, 1)
    assert f"'bus automation init {project}' makes one" in told
    assert "uctile" not in told


def test_a_configuration_in_its_usual_folder_is_named(run_bus: RunBus, project: Path) -> None:
    assert run_bus("automation", "init").code == 0
    done = run_bus("automation", "status", env={"HOME": str(project)})
    assert f"there is one in {project}/automation: name it with --config" in done.err
