"""A configuration that was only found in the working directory is looked at, and does nothing."""

import json
import os
from pathlib import Path

import pytest

from ackbus.automation.active_config import examine_folder
from ackbus.automation.config.sources import BY_NAME, FOUND, OWN
from ackbus.automation.config.values import ConfigFaults

from ..conftest import RunBus
from .conftest import Folder

SECRET = "ghp_0123456789"

CONFIG = """
    plugin_roots: [plugins]
    plugins:
      echo:
        config: {address: "https://example.org/${GITHUB_TOKEN}"}
        schedules: [{every: 5m}]
    tokens: [{name: it, key: "${GITHUB_TOKEN}"}]
    api: {enabled: true, listen: "127.0.0.1:9", auth: {tokens: [{token: "${GITHUB_TOKEN}", scopes: ["*"]}]}}
    pipelines: [{name: digest, on: e, steps: [{uses: echo}]}]
"""  # noqa: E501


@pytest.fixture
def clone(folder: Folder) -> Folder:
    """A folder with a configuration, a plugin that tells that it ran, and a bus."""
    folder.write(config=CONFIG)
    folder.plugin("echo", run=f"#!/bin/sh\ntouch {folder.path}/ran\n")
    return folder


LOOKING = (
    "config show",
    "plugin list",
    "schedule next echo",
    "pipeline graph",
    "pipeline list",
)
ACTING = (
    "automation start",
    "automation api /jobs",
    "automation stop",
    "automation reload",
    "automation run echo",
    "plugin run echo",
    "plugin health echo",
    "plugin add feed",
    "pipeline run digest",
    "pipeline repeat 1",
    "schedule run echo",
    "schedule pause echo",
    "webhook test x",
)


@pytest.mark.parametrize("command", LOOKING)
def test_it_can_be_looked_at_and_no_variable_is_filled(
    clone: Folder, run_bus: RunBus, command: str
) -> None:
    done = run_bus(*command.split(), cwd=clone.path, env={"GITHUB_TOKEN": SECRET})
    assert done.code == 0, done.err
    assert SECRET not in done.out + done.err
    if command == "config show":
        assert "https://example.org/${GITHUB_TOKEN}" in done.out


def test_it_can_be_checked(clone: Folder, run_bus: RunBus) -> None:
    done = run_bus("config", "check", cwd=clone.path)
    assert (done.code, done.out) == (0, f"{clone.path} is right\n"), done.err


@pytest.mark.parametrize("command", ACTING)
def test_it_starts_and_contacts_nothing_and_says_how_to_trust_it(
    clone: Folder, run_bus: RunBus, command: str
) -> None:
    before = sorted(os.listdir(clone.path))
    done = run_bus(*command.split(), cwd=clone.path, env={"GITHUB_TOKEN": SECRET})
    assert (done.code, done.err.count("\n")) == (3, 1)
    assert f"bus trust add {clone.path}" in done.err
    assert sorted(os.listdir(clone.path)) == before


@pytest.mark.parametrize("by", ["trust", "BUS_CONFIG", "--config", "BUS_SAFE_DIRECTORIES"])
def test_it_acts_once_its_user_has_said_so(clone: Folder, run_bus: RunBus, by: str) -> None:
    env, words = {"GITHUB_TOKEN": SECRET}, []
    if by == "trust":
        said = run_bus("trust", "add", clone.path, "--json")
        assert json.loads(said.out)["holds"] == [f"the configuration {clone.path}/config.yaml"]
    elif by == "--config":
        words = ["--config", "."]
    else:
        env[by] = str(clone.path)
    done = run_bus("automation", "stop", *words, cwd=clone.path, env=env)
    assert done.code == 4  # no service runs
    if by == "trust":
        assert run_bus("trust", "remove", clone.path).code == 0
        assert run_bus("automation", "stop", cwd=clone.path, env=env).code == 3


def test_a_bus_elsewhere_is_not_opened_for_it(
    clone: Folder, run_bus: RunBus, bus_dir: Path
) -> None:
    clone.write(
        config=f"state: {{path: {bus_dir.parent}/state.db}}\n{CONFIG.replace('    ', '', 1)}"
    )
    clone.write(config=f"state: {{path: {bus_dir.parent}/state.db}}\n")
    assert run_bus("automation", "queue", cwd=clone.path).code == 3
    assert run_bus("automation", "queue", "--config", ".", cwd=clone.path).code == 4


@pytest.mark.slow
def test_a_crew_that_was_found_starts_nothing(
    project: Path, bus_dir: Path, run_bus: RunBus
) -> None:
    (project / "crew.yaml").write_text("processes: {one: 'touch ran'}\n")
    done = run_bus("crew", "start")
    assert (done.code, done.err.count("\n")) == (3, 1)
    assert f"bus trust add {project}" in done.err
    assert run_bus("crew", "start", "--check").code == 0
    assert not (project / "ran").exists()
    assert run_bus("trust", "add", project).code == 0
    assert run_bus("crew", "start", "--detach").code == 0
    assert run_bus("crew", "stop").code == 0


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@needs_root
@pytest.mark.parametrize("name", ["config.yaml", "more.yaml", ".checksums", "vars", "scopes.json"])
@pytest.mark.parametrize("spoilt", ["owner", "mode", "group"])
def test_each_file_of_a_configuration_is_looked_at(folder: Folder, name: str, spoilt: str) -> None:
    folder.write_as(
        "config.yaml",
        """
        include: [more.yaml]
        environment_vars: {include: [vars]}
        tokens: [{name: it, key: "${KEY}", scopes_file: scopes.json}]
        """,
    )
    folder.write(more="service: {name: x}\n")
    folder.write_as("vars", "KEY=k\n")
    folder.write_as("scopes.json", '{"scopes": ["*"]}')
    folder.write_as(".checksums", "version: 2\nhashes: {}\n")
    path = folder.path / name
    if spoilt == "owner":
        os.chown(path, 61234, 61234)
    elif spoilt == "mode":
        path.chmod(0o666)
    else:
        os.chown(path, 0, 61999)
        path.chmod(0o664)
    origins = [OWN] if spoilt == "owner" and name == "config.yaml" else [BY_NAME, OWN]
    for origin in origins:
        with pytest.raises(ConfigFaults, match=r"belongs to|can write to"):
            examine_folder(folder.path, {}, origin)


@needs_root
@pytest.mark.parametrize("what", ["plugins", "plugins/echo", "plugins/echo/run.sh"])
@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o775])
def test_plugins_that_others_may_exchange_do_not_run(clone: Folder, what: str, mode: int) -> None:
    os.chown(clone.path / what, 0, 61999)
    (clone.path / what).chmod(mode)
    assert not examine_folder(clone.path, {"GITHUB_TOKEN": "x"}, BY_NAME).plugins


@needs_root
@pytest.mark.parametrize("what", ["plugins", "plugins/echo", "plugins/echo/manifest.yaml"])
def test_plugins_of_other_users_do_not_run(clone: Folder, what: str) -> None:
    os.chown(clone.path / what, 61234, 61234)
    assert not examine_folder(clone.path, {"GITHUB_TOKEN": "x"}, BY_NAME).plugins


def test_two_plugins_of_one_name_in_one_root_are_an_error(clone: Folder) -> None:
    manifest = (clone.path / "plugins/echo/manifest.yaml").read_text()
    clone.plugin("aaa", manifest)
    clone.plugin("zzz", manifest)
    snapshot = examine_folder(clone.path, {"GITHUB_TOKEN": "x"}, BY_NAME)
    assert "echo" not in snapshot.plugins
    doubled = [each for each in snapshot.faults if "two plugins of one folder" in each.message]
    assert len(doubled) == 3


def test_found_expands_nothing_by_itself(clone: Folder) -> None:
    found = examine_folder(clone.path, {"GITHUB_TOKEN": SECRET}, FOUND)
    assert not found.config.variables
    assert not found.faults
