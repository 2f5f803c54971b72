"""A configuration with its plugins: what refuses it as a whole, and what is only told."""

import logging

import pytest

from ackbus.automation.active_config import ConfigSnapshot, examine_folder
from ackbus.automation.config.values import ConfigFaults

from .conftest import Folder


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log of the automation."""
    caplog.set_level(logging.DEBUG, logger="ackbus.automation")
    return caplog


def read(folder: Folder, config: str) -> ConfigSnapshot:
    folder.write(config=config)
    return examine_folder(folder.path, {})


@pytest.mark.requirement("D-57")
def test_a_bad_plugin_is_logged_and_the_others_load(
    folder: Folder, logged: pytest.LogCaptureFixture
) -> None:
    folder.plugin("good")
    folder.plugin("bad", manifest="name: bad\n")
    snapshot = read(folder, "plugin_roots: [plugins]\nplugins: {good: {}, bad: {}}\n")
    snapshot.tell()
    assert list(snapshot.plugins) == ["good"]
    errors = [each.getMessage() for each in logged.records if each.levelname == "ERROR"]
    assert any("bad/manifest.yaml: commands: 'commands' is missing" in each for each in errors)


@pytest.mark.requirement("D-81", "D-151")
def test_warnings_of_the_configuration_and_of_plugins_are_logged(
    folder: Folder, logged: pytest.LogCaptureFixture
) -> None:
    folder.plugin("good").rename(folder.path / "elsewhere")
    (folder.path / "plugins/good").symlink_to(folder.path / "elsewhere")
    text = "service: {allow_symlinks: true}\nplugin_roots: [plugins, '.']\nplugins: {good: {}}\n"
    snapshot = read(folder, text)
    snapshot.tell()
    assert list(snapshot.plugins) == ["good"]
    warned = "\n".join(each.getMessage() for each in logged.records if each.levelname == "WARNING")
    assert "plugins/good is a symlink" in warned
    assert "the files here are not sealed" in warned


def test_a_reference_that_leads_nowhere_refuses_the_whole(folder: Folder) -> None:
    folder.plugin("good")
    text = (
        "plugin_roots: [plugins]\nplugins: {good: {}}\n"
        "routes: [{from: good, event_type: e, to: nobody}]\n"
    )
    with pytest.raises(ConfigFaults, match="there is no plugin 'nobody'"):
        read(folder, text)


@pytest.mark.requirement("D-109")
def test_a_pipeline_that_calls_itself_refuses_the_whole(folder: Folder) -> None:
    folder.write(
        config="""
        pipelines:
          - {name: a, on: e, steps: [{call: b}]}
          - {name: b, on: f, steps: [{call: a}]}
        """
    )
    with pytest.raises(ConfigFaults) as refused:
        examine_folder(folder.path, {})
    assert {fault.line for fault in refused.value.faults} <= {2, 3}
