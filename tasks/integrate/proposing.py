"""Proposing: a command asks somebody else to move the target, by a pull request for instance."""

from __future__ import annotations

from .checks import Check, run_check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...workers.processes.stop_switch import StopSwitch
    from ...workers.processes.supervisors import Supervisors


def propose(
    command: str,
    folder: str,
    environment: Mapping[str, str],
    *,
    stop: StopSwitch,
    supervisors: Supervisors,
) -> str | None:
    """Run the command that proposes a candidate; return why it failed, or None.

    Args:
        command: for `sh`; the candidate is in its environment.
        folder: where it runs.
        environment: variables besides those of this process.
        stop: ends it early.
        supervisors: they end all that it starts.
    """
    result = run_check(Check(command), folder, environment, stop=stop, supervisors=supervisors)
    if result.has_passed:
        return None
    said = f": {result.last_line[:300]}" if result.last_line else ""
    return f"it could not be proposed: {result.reason}{said}"
