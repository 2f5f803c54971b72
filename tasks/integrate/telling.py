"""The steps of an integration, as the session hears of them that a completion belongs to."""

from __future__ import annotations

from ..control.sessions import Sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from .checks import CheckResult
    from .entries import Entry, Result


def tell_session(bus: Bus, entry: Entry, agent: str, words: str) -> None:
    """Store an event of a step, in the caller's transaction; without such a session nothing.

    Args:
        bus: the bus.
        entry: what is integrated; the event is correlated by its completion's id.
        agent: the integrator.
        words: of the step.
    """
    if entry.session is None:
        return
    sessions = Sessions(bus)
    if sessions.table.exists(entry.session):
        sessions.emit(
            entry.session,
            "assistant_message",
            {"text": words},
            sender=agent,
            about=entry.message.id,
            correlationId=entry.message.id,
        )


def words_of_check(result: CheckResult) -> str:
    """Return what a session hears of a check."""
    how = "passed" if result.has_passed else f"failed: {result.reason}"
    return f"Check {result.command!r} {how}"


def words_of_outcome(result: Result, target: str) -> str:
    """Return what a session hears of the end of an entry."""
    if result.outcome == "landed":
        said = f"Merged into {target} as {result.commit}"
    else:
        said = f"Not merged into {target}: {result.outcome}"
    parts = (said, result.reason, ", ".join(result.files))
    return "; ".join(part for part in parts if part)
