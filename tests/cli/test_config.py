"""The commands of configuration: check, show, lock, diff."""

import json
import os
import stat
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.automation.records.facts import Fence
from ackbus.automation.service_lock import ServiceLock, state_dir_of

from ..automation.conftest import Folder
from ..conftest import RunBus

RIGHT = """
    include: [tokens.yaml]
    plugin_roots: [plugins]
    plugins: {good: {config: {api_key: "${KEY}", city: Sydney}}}
"""


@pytest.fixture
def right(project: Path) -> Folder:
    """A folder of configuration in which nothing is wrong."""
    folder = Folder(project / "conf")
    folder.write(config=RIGHT, tokens="tokens: [{name: a, key: '${KEY}'}]\n")
    folder.plugin("good")
    folder.lock()
    return folder


ENV = {"KEY": "very-secret"}


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_configuration_that_is_right_is_told_so(right: Folder, run_bus: RunBus) -> None:
    ended = run_bus("config", "check", "conf", env=ENV)
    assert (ended.code, ended.out, ended.err) == (0, "conf is right\n", "")
    ended = run_bus("config", "check", "conf", "--json", env=ENV)
    assert (ended.code, ended.out) == (0, "")


@pytest.mark.requirement("D-57", "D-143")
def test_every_fault_is_an_object_with_file_line_path_and_message(
    right: Folder, run_bus: RunBus
) -> None:
    right.write(
        config=RIGHT
        + "    routes:\n      - {from: good, event_type: e, to: goood}\n    servce: 1\n"
    )
    ended = run_bus("config", "check", "conf", "--json", env=ENV)
    assert ended.code == 1
    assert rows(ended.out) == [
        {
            "file": "conf/config.yaml",
            "line": 6,
            "path": "servce",
            "message": "'servce' is not a setting here; did you mean 'service'?",
        }
    ]
    right.write(config=RIGHT + "    routes: [{from: good, event_type: e, to: goood}]\n")
    ended = run_bus("config", "check", "conf", env=ENV)
    told = "conf/config.yaml:4: routes[0]: there is no plugin 'goood'; did you mean 'good'?\n"
    assert (ended.code, ended.out) == (1, told)
    assert "config.yaml: this file is not as it was sealed" in ended.err


def test_faults_of_plugins_and_warnings_are_told_too(right: Folder, run_bus: RunBus) -> None:
    right.plugin("bad", manifest="name: bad\n")
    ended = run_bus("config", "check", "conf", env=ENV)
    assert ended.code == 1
    assert "conf/plugins/bad/manifest.yaml: commands: 'commands' is missing\n" in ended.out


@pytest.mark.requirement("D-151")
def test_a_tampered_file_is_a_fault_of_the_check_and_is_shown_all_the_same(
    right: Folder, run_bus: RunBus
) -> None:
    right.write(tokens="tokens: [{name: a, key: '${KEY}'}, {name: b, key: '${KEY}'}]\n")
    ended = run_bus("config", "check", "conf", "--json", env=ENV)
    # Who may come in has changed as well, and is sealed as what all files say together.
    assert [row["file"] for row in rows(ended.out)] == ["conf/config.yaml", "conf/tokens.yaml"]
    ended = run_bus("config", "show", "conf", env=ENV)
    assert ended.code == 0  # looking starts nothing


def test_d_154_a_configuration_is_shown_without_its_secrets(right: Folder, run_bus: RunBus) -> None:
    for args in (["--json"], []):
        ended = run_bus("config", "show", "conf", *args, env=ENV)
        assert ended.code == 0
        assert "Sydney" in ended.out
        assert "very-secret" not in ended.out + ended.err
    view = json.loads(run_bus("config", "show", "conf", "--json", env=ENV).out)
    assert view["plugins"]["good"]["config"] == {"api_key": "[REDACTED]", "city": "Sydney"}
    assert view["tokens"][0]["key"] == "[REDACTED]"
    assert view["service"]["dedupe_ttl_s"] == 86_400


def test_one_plugin_is_shown(right: Folder, run_bus: RunBus) -> None:
    ended = run_bus("config", "show", "conf", "--only", "plugin:good", "--json", env=ENV)
    assert list(json.loads(ended.out)["plugins"]) == ["good"]
    ended = run_bus("config", "show", "conf", "--only", "token:*", env=ENV)
    assert ended.out.startswith("tokens:\n  a:\n    name: a\n    key: '[REDACTED]'\n")
    assert run_bus("config", "show", "conf", "--only", "plugin:bad", env=ENV).code == 4


@pytest.mark.requirement("D-143", "D-153")
def test_lock_seals_what_is_there_and_a_dry_run_seals_nothing(
    right: Folder, run_bus: RunBus
) -> None:
    seal = right.path / ".checksums"
    before = seal.read_bytes()
    right.write(config=RIGHT + "    service: {name: changed}\n")
    right.write_as("scopes/new.json", '["*"]')
    ended = run_bus("config", "lock", "conf", "--dry-run", "--json")
    states = {Path(str(row["file"])).name: row["state"] for row in rows(ended.out)}
    same = {"tokens.yaml": "same", "config.yaml#access": "same"}
    assert states == {"config.yaml": "changed", "new.json": "new"} | same
    assert seal.read_bytes() == before
    ended = run_bus("config", "lock", "conf")
    assert (ended.code, ended.err) == (0, "bus: sealed 3 files in conf/.checksums\n")
    assert stat.S_IMODE(os.stat(seal).st_mode) == 0o600
    assert run_bus("config", "check", "conf", env=ENV).code == 0
    assert run_bus("config", "diff", "conf").code == 0


def test_lock_refuses_what_can_not_be_read(right: Folder, run_bus: RunBus) -> None:
    before = (right.path / ".checksums").read_bytes()
    right.write(tokens="a: [\n")
    ended = run_bus("config", "lock", "conf")
    assert (ended.code, ended.out) == (78, "")
    assert "conf/tokens.yaml:2: this is no YAML" in ended.err
    assert (right.path / ".checksums").read_bytes() == before


def test_diff_tells_what_changed_since_the_seal(right: Folder, run_bus: RunBus) -> None:
    assert run_bus("config", "diff", "conf").code == 0
    right.write(config=RIGHT.replace("tokens.yaml", "more.yaml"), more="service: {}\n")
    ended = run_bus("config", "diff", "conf", "--json")
    assert ended.code == 1
    states = {Path(str(row["file"])).name: row["state"] for row in rows(ended.out)}
    changed = {"config.yaml": "changed", "config.yaml#access": "changed"}
    assert states == {"more.yaml": "new", "tokens.yaml": "unused"} | changed
    (right.path / "tokens.yaml").unlink()
    assert "gone     " in run_bus("config", "diff", "conf").out


def test_a_folder_is_found_by_the_environment_or_where_the_command_runs(
    right: Folder, run_bus: RunBus, project: Path
) -> None:
    assert run_bus("config", "check", env=ENV | {"BUS_CONFIG": str(right.path)}).code == 0
    assert run_bus("config", "check", cwd=right.path, env=ENV).code == 0
    ended = run_bus("config", "check", env=ENV | {"HOME": str(project)})
    make = f"'bus automation init {project}' makes one"
    told = f"{project}/config.yaml: there is no such file; {make}\n"
    assert (ended.code, ended.out) == (1, told)


def test_a_folder_without_a_configuration_is_a_fault(project: Path, run_bus: RunBus) -> None:
    ended = run_bus("config", "check", "nowhere", "--json")
    assert ended.code == 1
    (row,) = rows(ended.out)
    assert (row["file"], row["line"]) == ("nowhere/config.yaml", 0)


def test_diff_tells_whether_the_service_has_this_configuration(
    right: Folder, run_bus: RunBus, bus: Bus
) -> None:
    args = ("config", "diff", "conf", "--service", "--json", "--dir", bus.directory)
    ended = run_bus(*args, env=ENV)
    assert (ended.code, ended.out) == (4, "")
    fence = Fence.of(bus)
    with ServiceLock(state_dir_of(right.path)) as lock:
        lock.acquire()
        fence.ready(fence.begin(right.path, "other"), "other")
        ended = run_bus(*args, env=ENV)
        assert ended.code == 1
        (row,) = rows(ended.out)
        assert (row["state"], row["file"], row["sealed"]) == ("changed", str(right.path), "other")
        taken = right.load(ENV).hash
        fence.ready(fence.begin(right.path, taken), taken)
        ended = run_bus(*args, env=ENV)
        assert (ended.code, rows(ended.out)[0]["state"]) == (0, "same")
    ended = run_bus(*args, env=ENV)
    assert (ended.code, ended.out) == (4, ""), "a service that was killed stays in the table"
