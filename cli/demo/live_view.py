"""The live view: a progress bar, the agents, and the rate of messages."""

from __future__ import annotations

import time

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column, Table
from rich.text import Text

from ..show.output import visible
from .text import shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from ...demo.tally import Tally

#: How often the screen is drawn again, in seconds.
DRAW_EVERY_S = 0.1

#: A terminal of fewer columns shows neither the time nor the rate.
_MIN_COLUMNS_FOR_RATE = 60

_STYLES = {"killed": "bold red", "working, alive": "green"}

#: The widths of the agents' columns (agent, status, results), in characters: fixed, or the
#: picture would jump. The rest of the line, without the gaps, is for the work.
_AGENT_COLUMNS, _STATUS_COLUMNS, _RESULTS_COLUMNS, _GAPS_COLUMNS = 11, 14, 7, 8

#: A terminal that leaves less than this for a path is not shown it.
_MIN_PATH_COLUMNS = 16

#: What a terminal needs to show ^C, and to stay on its line.
_CTRL_C_COLUMNS = 3


class LiveView:
    """Draws on the terminal of standard error, and leaves its last picture there.

    Args:
        console: another terminal to draw on.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        columns: list[ProgressColumn] = [
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
        ]
        if self._console.width >= _MIN_COLUMNS_FOR_RATE:
            columns += [TimeElapsedColumn(), TextColumn("{task.fields[rate]}")]
        self._progress = Progress(*columns, console=self._console)
        self._bar = self._progress.add_task("files", total=None, rate="")
        # A thread that draws would come between a line of `say` and the picture under it.
        self._live = Live(console=self._console, auto_refresh=False)
        self._drawn_at = 0.0

    def say(self, text: str) -> None:
        """Print one line above the picture."""
        self._console.print(Text(visible(text)))

    def show(self, tally: Tally) -> None:
        """Draw the present state."""
        self._progress.update(
            self._bar,
            completed=tally.reported,
            total=tally.tasks if tally.all_assigned else None,
            rate=_rate(tally),
        )
        width = self._console.width
        picture = Group(self._progress, _agents(tally, width), _last_line(tally, width))
        due = time.monotonic() >= self._drawn_at + DRAW_EVERY_S
        self._live.update(picture, refresh=due)
        if due:
            self._drawn_at = time.monotonic()

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()


def _rate(tally: Tally) -> str:
    if tally.finished:
        return f"{tally.average_messages_per_s:,.0f} messages/s on average"
    return f"{tally.messages_per_s:,.0f} messages/s"


def _last_line(tally: Tally, width: int) -> Text:
    """Return the last line: what the run waits for, when nothing moves.

    Always a line, and always shorter than the terminal: the ^C that a terminal shows must not
    wrap, or the last picture would be drawn a line too low.
    """
    return Text(_waiting(tally, width - _CTRL_C_COLUMNS)[: width - _CTRL_C_COLUMNS])


def _waiting(tally: Tally, width: int) -> str:
    if tally.killing is None or not tally.waits_for_lease:
        return ""
    left_s = tally.lease_left_s
    whose = f" waiting for {tally.killing.payload['agent']}'s lease"
    until = f" to end: {left_s:.1f} s" if left_s else " to be taken over"
    for_path = width - len(f"{whose} on {until}")
    if for_path < _MIN_PATH_COLUMNS:
        return f"{whose}: {left_s:.1f} s"
    return f"{whose} on {shortened(visible(tally.killing.payload['path']), for_path)}{until}"


def _agents(tally: Tally, width: int) -> Table:
    table = Table(
        Column("agent", min_width=_AGENT_COLUMNS),
        Column("status", min_width=_STATUS_COLUMNS),
        Column("results", min_width=_RESULTS_COLUMNS, justify="right"),
        box=None,
    )
    for_work = width - _AGENT_COLUMNS - _STATUS_COLUMNS - _RESULTS_COLUMNS - _GAPS_COLUMNS
    shows_work = for_work >= _MIN_PATH_COLUMNS
    if shows_work:
        # One line for each agent, or the picture would jump.
        table.add_column("at work on", no_wrap=True)
    for agent, state, work, results in tally.agents():
        row = [Text(agent), Text(state, _STYLES.get(state, "")), Text(f"{results:,}")]
        table.add_row(*row, *([Text(shortened(visible(work), for_work))] if shows_work else []))
    return table
