"""The page about automation names what it does not do, and that is so."""

import re
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.automation.active_config import examine_folder
from ackbus.automation.config.models import BreakerConfig

from .conftest import Folder
from .running import running

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "automate.md"


def answers() -> dict[str, str]:
    """The entries of the section, by what each is about."""
    section = HOW_TO.read_text("utf-8").partition("\n## Not here\n")[2]
    entries = re.findall(r"^- (\*\*.*?)(?=^- |\Z)", section, re.DOTALL | re.MULTILINE)
    return {
        name: " ".join(entry.split())
        for entry in entries
        for name in re.findall(r"\*\*(.*?)\*\*", entry)
    }


@pytest.mark.requirement("Q-20")
def test_the_four_questions_are_answered() -> None:
    found = answers()
    assert found.keys() == {"At most once", "Breakers", "Connections that stay", "streams"}
    usual = BreakerConfig()
    assert f"after {usual.threshold} failures" in found["Breakers"]
    assert f"for {usual.reset_after_s / 60:g} minutes" in found["Breakers"]


@pytest.mark.requirement("Q-17")
def test_a_plugin_that_streams_is_ended_at_its_timeout(bus: Bus, folder: Folder) -> None:
    """There is no other mode: each event that it printed so far is lost with its attempt."""
    assert "a service of its own, which sends what it hears to a webhook" in answers()["streams"]
    folder.write(
        config="""
        plugin_roots: [plugins]
        plugins: {echo: {enabled: true, max_attempts: 1, timeouts: {poll: 1s}}}
        """
    )
    line = '{"status": "ok", "result": "", "events": [{"type": "e", "payload": 1}]}'
    folder.plugin("echo", run=f"#!/bin/sh\nwhile sleep 0.1; do echo '{line}'; done\n")
    with running(bus, folder.path) as service:
        job = service.ended(service.submit("echo"))
    assert (job.state, job.error) == ("dead", "timed out after 1 seconds")
    assert list(bus.read(type="plugin.event")) == []


@pytest.mark.requirement("Q-17")
@pytest.mark.parametrize("mode", ["mode: stream", "streaming: true", "persistent: true"])
def test_a_manifest_that_asks_for_a_stream_is_refused(folder: Folder, mode: str) -> None:
    folder.write(config="plugin_roots: [plugins]\nplugins: {echo: {enabled: true}}\n")
    path = folder.plugin("echo") / "manifest.yaml"
    path.write_text(f"{path.read_text()}{mode}\n")
    faults = examine_folder(folder.path, {}).faults
    assert f"{mode.partition(':')[0]!r} is not a setting here" in str(faults[0])
