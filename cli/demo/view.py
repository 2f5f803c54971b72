"""What is seen of the demo while it runs: a live view on a terminal, else a few plain lines."""

from __future__ import annotations

import sys

from .. import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Protocol

    from .tally import Tally

    class View(Protocol):
        """Shows the run. A context manager, because a live view has to leave the screen tidy."""

        def say(self, text: str) -> None:
            """Print one line, for good."""

        def show(self, tally: Tally) -> None:
            """Show how things stand now."""

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
        """Nothing: what matters is said once."""

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
    """Return the live view where somebody is looking, else plain lines."""
    if json or not (sys.stdout.isatty() and sys.stderr.isatty()):
        return PlainView()
    from .live_view import LiveView  # rich is slow to load

    return LiveView()
