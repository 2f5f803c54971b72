"""One wrong reference at each place: what a check refuses, a start and a reload refuse alike."""

import os
import subprocess
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.automation.active_config import ConfigLoader, examine_folder
from ackbus.automation.attention import last_activation
from ackbus.automation.config.load import Demands
from ackbus.automation.config.values import ConfigFaults
from ackbus.automation.service import Service
from ackbus.schema.errors import AckbusError
from ackbus.schema.queries import file_of

from ..command_server import door_server
from .conftest import Folder
from .running import OK, serving
from .service_process import ServiceProcess

RIGHT = """
plugin_roots: [plugins]
service: {on_failure: note}
state: {path: data/state.db}
plugins:
  disk:
    schedules: [{every: 1h, command: poll}]
    on_failure: note.handle
    timeouts: {poll: 10s}
  note: {uses: note}
routes:
  - {from: disk, event_type: e, to: note, command: handle}
pipelines:
  - name: inner
    on: i
    from_plugin: disk
    steps:
      - {id: first, uses: disk.poll}
      - split: [{steps: [{uses: note}]}, {uses: disk}]
  - {name: outer, on: o, steps: [{call: inner}]}
tokens: [{name: hook, key: "${HOOK}"}]
api: {enabled: false, auth: {tokens: [{secret_ref: hook, scopes: [plugin:ro]}]}}
webhooks:
  listen: 127.0.0.1:0
  endpoints:
    - {name: p, path: /p, plugin: note, command: handle, secret_ref: hook, signature_header: X-S}
    - {name: q, path: /q, pipeline: inner, secret_ref: hook, signature_header: X-S}
"""

#: What stands there, what is written instead, and a part of what is told.
WRONG = [
    ("  note: {uses: note}", "  note: {uses: nobody}", "no plugin 'nobody' is in plugin_roots"),
    ("  note: {uses: note}", "  note: {}\n  nobody: {}", "no plugin 'nobody' is in plugin_roots"),
    ("{every: 1h, command: poll}", "{every: 1h, command: pol}", "no command 'pol'; did you mean"),
    ("on_failure: note.handle", "on_failure: nobody", "there is no plugin 'nobody'"),
    ("on_failure: note.handle", "on_failure: note.nothing", "has no command 'nothing'"),
    ("{on_failure: note}", "{on_failure: nobody}", "there is no plugin 'nobody'"),
    ("{on_failure: note}", "{on_failure: note.nothing}", "has no command 'nothing'"),
    ("timeouts: {poll", "timeouts: {pol", "timeouts.pol: the plugin has no such command"),
    ("{from: disk", "{from: dsk", "there is no plugin 'dsk'; did you mean 'disk'?"),
    ("to: note,", "to: nobody,", "there is no plugin 'nobody'"),
    ("to: note,", "to: spare,", "the plugin 'spare' is not used; add plugins.spare to run it"),
    ("to: note, command: handle", "to: note, command: no", "has no command 'no'"),
    ("from_plugin: disk", "from_plugin: dsk", "there is no plugin 'dsk'"),
    ("uses: disk.poll", "uses: nobody", "there is no plugin 'nobody'"),
    ("uses: disk.poll", "uses: disk.pol", "has no command 'pol'"),
    ("{steps: [{uses: note}]}", "{steps: [{uses: nobody}]}", "there is no plugin 'nobody'"),
    ("{uses: disk}]", "{uses: nobody}]", "there is no plugin 'nobody'"),
    ("call: inner", "call: iner", "there is no pipeline 'iner'; did you mean 'inner'?"),
    ("[{secret_ref: hook", "[{secret_ref: hok", "there is no token 'hok'"),
    ("plugin: note, command", "plugin: nobody, command", "there is no plugin 'nobody'"),
    ("command: handle, secret", "command: no, secret", "has no command 'no'"),
    ("pipeline: inner", "pipeline: iner", "there is no pipeline 'iner'"),
    ("handle, secret_ref: hook", "handle, secret_ref: hok", "there is no token 'hok'"),
    ('key: "${HOOK}"}', 'key: "${HOOK}", scopes_file: no.json}', "can't read"),
    ("plugin_roots: [plugins]", "include: [no.yaml]\nplugin_roots: [plugins]", "no.yaml"),
    ("plugin_roots: [plugins]", "plugin_roots: [nowhere]", "no plugin 'disk' is in plugin_roots"),
]

ENVIRON = {"HOOK": "a secret of hooks"}


@pytest.fixture
def folder(folder: Folder) -> Folder:
    folder.write_as("config.yaml", RIGHT)
    for name in ("disk", "note", "spare"):
        folder.plugin(name, run=OK)
    return folder


def bus_command(folder: Folder, *words: str) -> subprocess.CompletedProcess[str]:
    hidden = ("BUS_DIR", "BUS_CONFIG", "NOTIFY_SOCKET")
    env = {k: v for k, v in os.environ.items() if k not in hidden} | ENVIRON
    return door_server().completed(words, cwd=Path.cwd(), env=env, timeout_s=60)


def test_the_right_configuration_has_no_fault(folder: Folder) -> None:
    snapshot = examine_folder(folder.path, ENVIRON)
    assert (snapshot.faults, list(snapshot.plugins)) == ((), ["disk", "note"])


@pytest.mark.parametrize(("right", "wrong", "told"), WRONG)
def test_a_wrong_reference_is_refused_with_its_place(
    folder: Folder, right: str, wrong: str, told: str
) -> None:
    assert RIGHT.count(right) == 1
    folder.write_as("config.yaml", RIGHT.replace(right, wrong))
    with pytest.raises(ConfigFaults) as refused:
        examine_folder(folder.path, ENVIRON)
    (fault,) = [each for each in refused.value.faults if told in str(each)][:1]
    assert fault.file.endswith("config.yaml")
    assert fault.line > 0


@pytest.mark.slow
def test_a_reload_refuses_each_wrong_reference_and_answers_at_once(
    bus: Bus, folder: Folder
) -> None:
    loader = ConfigLoader(lambda: examine_folder(folder.path, ENVIRON))
    with Bus.open(bus.layout.directory) as own:
        service = Service(own, loader, on_reloaded=loader.end)
        with serving(bus, service):
            for right, wrong, told in WRONG:
                number = last_activation(bus).number
                folder.write_as("config.yaml", RIGHT.replace(right, wrong))
                with pytest.raises(AckbusError) as refused:
                    loader.reload(service)
                assert any(told in str(each) for each in refused.value.faults)  # type: ignore[attr-defined]
                activation = last_activation(bus)
                assert (activation.number, activation.refused) == (number + 1, str(refused.value))
                assert list(service.snapshot.plugins) == ["disk", "note"]
            folder.write_as("config.yaml", RIGHT)
            loader.reload(service)
            assert last_activation(bus).refused is None


@pytest.mark.slow
def test_the_commands_refuse_alike(folder: Folder) -> None:
    """Check exits 1, a start 78, a reload 1 with the reason, which doctor repeats."""
    where = str(folder.path)
    wrong = RIGHT.replace("{from: disk", "{from: dsk")
    service = ServiceProcess(folder.path, **ENVIRON).ready()
    try:
        folder.write_as("config.yaml", wrong)
        checked = bus_command(folder, "config", "check", where)
        reloaded = bus_command(folder, "automation", "reload", "--config", where)
        status = bus_command(folder, "automation", "status", "--config", where)
        doctor = bus_command(folder, "doctor", "--dir", str(service.bus_dir))
    finally:
        assert service.stop() == 0
    told = "routes[0]: there is no plugin 'dsk'; did you mean 'disk'?"
    assert (checked.returncode, told in checked.stdout) == (1, True)
    assert (reloaded.returncode, told in reloaded.stderr) == (1, True)
    assert "the last reload was refused" in status.stdout
    assert "the last reload was refused" in doctor.stdout
    started = bus_command(folder, "automation", "start", "--config", where)
    assert (started.returncode, told in started.stderr) == (78, True)


# A plugin that can't be loaded.


def broken(folder: Folder) -> None:
    (folder.path / "plugins/note/run.sh").chmod(0o644)


def test_a_plugin_that_can_not_be_loaded_is_left_out_and_what_leads_to_it_is_a_warning(
    folder: Folder,
) -> None:
    broken(folder)
    snapshot = examine_folder(folder.path, ENVIRON)
    assert list(snapshot.plugins) == ["disk"]
    assert list(snapshot.left_out) == ["note"]
    assert "run.sh is not executable; chmod +x it" in snapshot.left_out["note"]
    told = [each.message for each in snapshot.warnings if "left out" in each.message]
    assert told == ["the plugin 'note' is left out, so nothing comes of this"] * len(told)
    assert len(told) == 5
    with pytest.raises(ConfigFaults, match="not executable"):
        examine_folder(folder.path, ENVIRON, demands=Demands(plugins=True))


@pytest.mark.parametrize(
    ("name", "manifest"),
    [("other", "name: other\n"), ("third", "name: [x]\n"), ("third", "name: [")],
)
def test_a_plugin_whose_manifest_is_broken_is_left_out_by_its_name(
    folder: Folder, name: str, manifest: str
) -> None:
    """Or by the name of its folder, where it has none."""
    folder.plugin("third", manifest=manifest)
    folder.write_as(
        "config.yaml", RIGHT.replace("  note: {uses", f"  {name}: {{}}\n  note: {{uses")
    )
    snapshot = examine_folder(folder.path, ENVIRON)
    assert "plugins/third/manifest.yaml" in snapshot.left_out[name]


@pytest.mark.slow
def test_a_plugin_that_is_left_out_is_told_everywhere(folder: Folder) -> None:
    broken(folder)
    where = str(folder.path)
    service = ServiceProcess(folder.path, **ENVIRON).ready()
    try:
        status = bus_command(folder, "automation", "status", "--config", where)
        doctor = bus_command(folder, "doctor", "--dir", str(service.bus_dir))
        reloaded = bus_command(folder, "automation", "reload", "--config", where)
    finally:
        assert service.stop() == 0
    told = "run.sh is not executable; chmod +x it"
    assert told in service.told.read_text()
    assert "configured and not loaded: note: " in status.stdout
    assert "configured and not loaded: note: " in doctor.stdout
    assert (reloaded.returncode, told in reloaded.stderr) == (0, True)
    assert bus_command(folder, "config", "check", where).returncode == 1
    strict = bus_command(folder, "automation", "start", "--strict", "--config", where)
    assert (strict.returncode, told in strict.stderr) == (78, True)


def test_an_entry_that_others_wrote_is_no_taking(bus: Bus) -> None:
    for text in ("no json", "[]", '{"number": "x", "left_out": 5}', '{"left_out": {"a": 1}}'):
        file_of(bus).rows(
            "INSERT INTO meta VALUES ('automation_taking', ?)"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (text,),
        )
        assert last_activation(bus).number == 0
