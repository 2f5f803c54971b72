"""The live view: a progress bar, the agents, and the rate of messages."""

from __future__ import annotations

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from ..output import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from .tally import Tally

#: How often the screen is drawn again, per second.
FRAMES_PER_S = 10

_STYLES = {"killed": "bold red", "working, alive": "green"}


class LiveView:
    """Draws on the terminal of standard error, and leaves its last picture there."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[rate]:,.0f} messages/s"),
            console=console,
        )
        self._bar = self._progress.add_task("files", total=None, rate=0.0)
        self._live = Live(console=console, refresh_per_second=FRAMES_PER_S)

    def say(self, text: str) -> None:
        """Print one line above the picture."""
        self._live.console.print(Text(visible(text)))

    def show(self, tally: Tally) -> None:
        """Draw how things stand now."""
        self._progress.update(
            self._bar,
            completed=tally.reported,
            total=tally.tasks if tally.all_assigned else None,
            rate=tally.messages_per_s,
        )
        self._live.update(Group(self._progress, _agents(tally)))

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


def _agents(tally: Tally) -> Table:
    table = Table("agent", "status", Column("results", justify="right"), box=None)
    # One line for each agent, or the picture would jump.
    table.add_column("at work on", no_wrap=True)
    for agent, state, task, results in tally.agents():
        table.add_row(agent, Text(state, _STYLES.get(state, "")), f"{results:,}", Text(task))
    return table
