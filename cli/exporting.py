"""The export of what a command has published: beside it, or after its output.

What keeps a command from exporting is no error of the command: it says nothing, and `bus doctor`
does.
"""

from __future__ import annotations

from contextlib import suppress

from ..bus.local_bus import LocalBus
from ..schema.directory.layout import may_export_unasked
from ..schema.errors import AckbusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..export.jsonl.exporter import BackgroundExporter
    from .show.output import Output

#: The buses that stay open until the output of the command is out.
_unclosed: list[CommandBus] = []

_exports_all = False


class CommandBus(LocalBus):
    """The bus of a command, which is exported, unless nothing was published here.

    A service of automation and hooks open theirs otherwise: those export when they are asked to,
    and nobody is to wait for these.
    """

    _exporter: BackgroundExporter | None = None

    def export_beside(self) -> None:
        """Export in a thread from now on, while no other command does."""
        if may_export_unasked():
            from ..export.jsonl.exporter import BackgroundExporter

            self._exporter = BackgroundExporter(self)
            self._exporter.start()

    def close(self) -> None:
        """Close the bus, or leave it open for the end of the command."""
        exporter, self._exporter = self._exporter, None
        if exporter is not None:
            exporter.stop()
        elif self._doorbell.was_rung and may_export_unasked():
            if self not in _unclosed:
                _unclosed.append(self)
            return
        super().close()


def export_all_at_end() -> None:
    """Export at the end all that is missing, since this command publishes many messages."""
    global _exports_all
    _exports_all = True


def export_at_end(output: Output) -> None:
    """Export what was published here, and close the buses. Never raises, and never waits."""
    while _unclosed:
        bus = _unclosed.pop()
        try:
            # Loaded here: most commands publish nothing.
            from ..export.jsonl.automatic import export_all, export_briefly

            (export_all if _exports_all else export_briefly)(bus)
        except (Exception, KeyboardInterrupt) as error:  # the command itself is done
            output.detail(f"bus.jsonl is behind: {error}")
        finally:
            with suppress(AckbusError):  # a transaction is open where the command was interrupted
                super(CommandBus, bus).close()
