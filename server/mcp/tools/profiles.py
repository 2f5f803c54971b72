"""Profiles: the tools that an agent is offered, since every description costs context."""

from __future__ import annotations

from ....schema.errors import InvalidInput

DEFAULT, FULL = "default", "full"

_DEFAULT_TOOLS = (
    *("bus_join", "bus_send", "bus_inbox", "bus_ack", "bus_reserve", "bus_status"),
    "bus_task",
)

#: The tools of each profile, in the order in which they are listed.
PROFILES: dict[str, tuple[str, ...]] = {
    DEFAULT: _DEFAULT_TOOLS,
    FULL: (
        *_DEFAULT_TOOLS,
        "bus_thread",
        "bus_search",
        "bus_receipts",
        "bus_agents",
        "bus_claim",
        "bus_finish",
        "bus_check",
        "bus_request",
    ),
}


def check_profile(name: str) -> None:
    """Refuse what is no profile."""
    if name not in PROFILES:
        raise InvalidInput(f"--profile must be {' or '.join(PROFILES)}, not {name!a}")
