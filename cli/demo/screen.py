"""The screen of the demo: a live picture on a terminal, else a few plain lines; then the report."""

from __future__ import annotations

import sys
from contextlib import nullcontext

from ..show import output
from .report import print_json, print_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ...bus.bus import Bus
    from ...demo.place import Place
    from ...demo.proof import Proof
    from ...demo.run import View
    from ...demo.tally import Tally


class PlainView:
    """Lines on standard error: standard output is for the results."""

    def say(self, text: str) -> None:
        """Print one line."""
        output.note(text)

    def show(self, tally: Tally) -> None:
        """Do nothing: plain lines only report events."""


class Screen:
    """Shows a run of the demo.

    Args:
        json: print the results as JSON, one object a line, instead of tables.
    """

    def __init__(self, *, json: bool) -> None:
        self._json = json

    def note(self, text: str) -> None:
        """Print one line on standard error."""
        output.note(text)

    def view(self) -> AbstractContextManager[View]:
        """Return the live view on a terminal, else plain lines."""
        if self._json or not (sys.stdout.isatty() and sys.stderr.isatty()):
            return nullcontext(PlainView())
        from .live_view import LiveView  # rich is slow to load

        return LiveView()

    def report(self, bus: Bus, proof: Proof, took_s: float, place: Place) -> None:
        """Print the results and the proof."""
        if self._json:
            print_json(bus, proof, took_s)
        else:
            print_report(bus, proof, took_s, place)
