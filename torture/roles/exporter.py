"""The exporter: keeps `bus.jsonl` up with the log."""

from __future__ import annotations

from ...export.jsonl.exporter import Exporter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .agent import Me


def play(me: Me) -> None:
    """Export until it is over."""
    exporter = Exporter(me.bus)
    me.lifeline.call_at_end(exporter.stop)
    with me.history.attempt("follow") as attempt:
        exporter.follow()
        attempt.told(position=exporter.position)
