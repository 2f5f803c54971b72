"""Texts of a configuration that can be no path: faults or warnings like others."""

import pytest

from ackbus.automation.active_config import examine_folder

from ..conftest import Folder

LONG = "x" * 300
NUL = '"a\\0b"'
NOBODY = "~no-such-user/x"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"plugin_roots: [{NUL}]", "plugin_roots[0]: no path has a NUL in it"),
        (f"plugin_roots: [{NOBODY}]", "plugin_roots[0]: there is no such user, or no home"),
        (f"state: {{path: {NUL}}}", "state.path: no path has a NUL in it"),
        (f"state: {{path: {NOBODY}}}", "state.path: there is no such user"),
        (f"include: [{LONG}]", f"{LONG}"),
        (f"include: [{NUL}]", "include: no path has a NUL in it"),
        (f"include: [{NOBODY}]", "include: there is no such user"),
        (f"environment_vars: {{include: [{LONG}]}}", "File name too long"),
        (f"environment_vars: {{include: [{NUL}]}}", "include: no path has a NUL in it"),
        (f"environment_vars: {{include: [{NOBODY}]}}", "include: there is no such user"),
        (
            f'tokens: [{{name: a, key: "${{K}}", scopes_file: {NUL}}}]',
            "scopes_file: can't read",
        ),
    ],
)
def test_text_that_can_be_no_path_is_a_fault_at_its_line(
    folder: Folder, text: str, told: str
) -> None:
    folder.write(config=text + "\n")
    (fault,) = folder.told(K="key")
    assert fault.startswith("config.yaml:1: ")
    assert told in fault


def test_root_whose_name_is_too_long_is_one_that_is_not_there(folder: Folder) -> None:
    folder.write(config=f"plugin_roots: [{LONG}]\n")
    assert any("there is no folder" in str(each) for each in folder.load().warnings)
    assert not examine_folder(folder.path, {}).plugins


@pytest.mark.parametrize(("entrypoint", "told"), [(LONG, "there is no file"), (NUL, "NUL")])
def test_program_that_can_be_no_file_leaves_its_plugin_out(
    folder: Folder, entrypoint: str, told: str
) -> None:
    manifest = folder.plugin("echo") / "manifest.yaml"
    manifest.write_text(manifest.read_text().replace("run.sh", entrypoint))
    folder.write(config="plugin_roots: [plugins]\nplugins: {echo: {enabled: true}}\n")
    found = examine_folder(folder.path, {})
    assert not found.plugins
    assert told in str(found.faults[0])
