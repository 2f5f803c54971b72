"""All tools, by name."""

from __future__ import annotations

from collections.abc import Mapping

from . import inbox, messages, presence, reservations, tasks, work
from .profiles import PROFILES
from .tool import Tool

_ALL = {
    tool.name: tool
    for module in (inbox, messages, presence, reservations, tasks, work)
    for tool in module.TOOLS
}


def tools_of(profile: str) -> Mapping[str, Tool]:
    """Return the tools of a profile, in the order in which they are listed."""
    return {name: _ALL[name] for name in PROFILES[profile]}
