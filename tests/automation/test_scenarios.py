"""Scenarios that are public for Ductile, in words of our own: each loads."""

import pytest

from ackbus.automation.snapshots import examine_folder

from .api.serving import KEYS
from .conftest import Folder
from .scenarios import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_loads_without_a_fault(folder: Folder, name: str) -> None:
    snapshot = examine_folder(SCENARIOS[name].write(folder).path, KEYS)
    assert snapshot.faults == ()
    assert set(snapshot.plugins) == set(SCENARIOS[name].programs)
