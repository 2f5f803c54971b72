"""Issue 32, item 9: two programs in one directory, each ordered pair of them.

Each has its own agent, or each setup and each check says that one takes the other's files.
"""

from itertools import permutations
from pathlib import Path

import pytest

from ackbus.setup.programs import PROGRAMS, Scope

from .test_setup_files import apply, installation, root

__all__ = ["root"]

#: What each program reads in a project, as its captures (`make programs`) or its documents say.
READS = {
    "claude": [".mcp.json", ".claude/settings.json", ".claude/settings.local.json"],
    "codex": [".codex/config.toml", ".codex/hooks.json"],
    "gemini": [".gemini/settings.json"],
    "cursor": [
        ".cursor/mcp.json",
        ".cursor/hooks.json",
        ".claude/settings.json",
        ".claude/settings.local.json",
    ],
    "copilot": [
        ".mcp.json",
        ".vscode/mcp.json",
        ".github/mcp.json",
        ".github/hooks/ackbus.json",
        ".claude/settings.json",
        ".claude/settings.local.json",
    ],
    "opencode": ["opencode.json", ".opencode/plugins/ackbus.js"],
    "windsurf": ["../home/.codeium/windsurf/mcp_config.json"],
}


def agents_of(name: str, folder: Path) -> set[str]:
    """The agents as which a program would act by all that it reads there."""
    names = [f"a-{each}" for each in PROGRAMS]
    texts = [(folder / path).read_text() for path in READS[name] if (folder / path).exists()]
    return {agent for agent in names if any(agent in text for text in texts)}


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [*permutations(PROGRAMS, 2)])
@pytest.mark.parametrize("scope", ["project", "local"])
def test_each_has_its_own_agent_or_both_say_so(
    first: str, second: str, scope: Scope, root: Path
) -> None:
    setups = []
    for name in (first, second):
        own: Scope = scope if PROGRAMS[name].has_local else "project"
        setup = installation(name, root, agent=f"a-{name}", scope=own)
        apply(setup.additions())
        setups.append(setup)
        for each in setups:
            assert each.as_it_stands().agent == each.agent
    mixed = [name for name in (first, second) if agents_of(name, root) != {f"a-{name}"}]
    for setup in setups:
        told = "\n".join(setup.clashes())
        assert bool(told) == bool(mixed)
        assert all(f"'a-{name}'" in told for name in (first, second) if mixed)
    apply(setups[0].removals())
    assert (setups[1].clashes(), agents_of(second, root)) == ([], {f"a-{second}"})


def test_setup_for_all_projects_counts_in_each(root: Path) -> None:
    home = root.parent / "home"
    everywhere = installation("claude", home, scope="global", agent="all")
    apply(everywhere.additions())
    (told,) = installation("copilot", root, agent="one").clashes()
    assert ("'one'" in told, "'all'" in told) == (True, True)
    assert everywhere.clashes() == []
