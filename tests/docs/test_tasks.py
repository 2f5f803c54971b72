"""The pages about tasks name what there is: the paths of PushPals' door, programs, patterns."""

import re

import pytest
import typer

from ackbus.cli import app
from ackbus.server.pushpals.app import ROUTERS
from ackbus.tasks.agent_program import MODES, PRESETS
from ackbus.tasks.records.task import STATES

from .test_documents import ROOT

HOW_TO = (ROOT / "docs/how-to/tasks.md").read_text("utf-8")


def test_u_80_every_path_of_pushpals_is_in_the_page_about_http() -> None:
    """U-80: and no other."""
    text = (ROOT / "docs/http.md").read_text("utf-8")
    (section,) = re.findall(r"^## PushPals\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    routes = [route for router in ROUTERS for route in router.routes]
    served = {re.sub(r":\w+}", "}", route.path) for route in routes}  # type: ignore[attr-defined]
    assert set(re.findall(r"`(/[^`]*)`", section)) == served


def test_u_80_every_command_of_tasks_is_told_of_in_the_how_to() -> None:
    """U-80: with the programs that are known, and the words of their permissions."""
    top = typer.main.get_command(app.app)
    for noun in ("task", "crew"):
        for name in top.commands[noun].commands:  # type: ignore[attr-defined]
            assert re.search(rf"\b(bus\s+{noun}\s+|`){name}\b", HOW_TO), f"bus {noun} {name}"
    assert "bus integrate" in HOW_TO
    for program, preset in PRESETS.items():
        assert preset.title.removesuffix(" CLI") in HOW_TO, program
    for mode in MODES:
        assert f"- `{mode}`" in HOW_TO


def test_m_05_patterns_of_branches_and_of_watching_are_documented() -> None:
    """M-05: a branch for each worker, and people who watch, with the example of the source."""
    assert "**A branch for each worker**" in HOW_TO
    assert "**People watch, agents report**" in HOW_TO
    assert "worker-auth/skills-abc" in HOW_TO


@pytest.mark.parametrize("state", STATES)
def test_every_state_of_a_task_is_drawn(state: str) -> None:
    """M-01: in the page of states."""
    assert state in (ROOT / "docs/states.md").read_text("utf-8")
