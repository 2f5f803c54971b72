"""The view of a running demo: a live picture on a terminal, else a few plain lines."""

from __future__ import annotations

import sys

from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Protocol

    from ...demo.tally import Tally

    class View(Protocol):
        """Shows the run. A context manager, because a live view has to leave the screen tidy."""

        def say(self, text: str) -> None:
            """Print one line, for good."""

        def show(self, tally: Tally) -> None:
            """Show the present state."""

        def __enter__(self) -> View: ...

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...


class PlainView:
    """Lines on standard error: standard output is for the results."""

    def say(self, text: str) -> None:
        """Print one line."""
        output.note(text)

    def show(self, tally: Tally) -> None:
        """Do nothing: plain lines only report events."""

    def __enter__(self) -> PlainView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return


def choose_view(*, json: bool) -> View:
    """Return the live view on a terminal, else plain lines."""
    if json or not (sys.stdout.isatty() and sys.stderr.isatty()):
        return PlainView()
    from .live_view import LiveView  # rich is slow to load

    return LiveView()
