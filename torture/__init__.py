"""`bus torture`: agents that are killed at random, and a proof over their histories."""

from __future__ import annotations

from .plan import Plan


def run_torture(plan: Plan, directory: str | None, *, keep: bool, json: bool) -> int:
    """Run the torture to its end, and check that nothing was lost.

    Args:
        plan: how many agents, for how long, and how often one is killed.
        directory: where the bus and the histories are made; None takes a fresh directory in the
            working directory.
        keep: leave everything there, also when every proof holds.
        json: print the result as one JSON object.

    Returns:
        The exit code: 0, 1 when a proof fails, 130 when it was interrupted.

    Raises:
        Refused: the directory is not empty.
        InvalidInput: it can't be made.
    """
    from .run import run  # the agents' processes import this package, and need none of that

    return run(plan, directory, keep=keep, json=json)


__all__ = ["Plan", "run_torture"]
