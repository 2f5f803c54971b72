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


class CommandBus(LocalBus):
    """The bus of a command, which is exported, unless nothing was published here.

    A service of automation and hooks open theirs otherwise: those export when they are asked to,
    and nobody is to wait for these.
    """

    _output: Output
    _exports_all: bool
    _exporter: BackgroundExporter | None = None
    _is_ending = False

    def export_after(self, output: Output, *, exports_all: bool) -> None:
        """Export what is published here when the output of the command line is out.

        With `exports_all` that is all that is missing, else as much as takes no time.
        """
        self._output, self._exports_all = output, exports_all

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
        elif self._is_ending:
            return
        elif self._doorbell.was_rung and may_export_unasked():
            self._is_ending = True
            self._output.call_after(self._export_and_close)
            return
        super().close()

    def _export_and_close(self) -> None:
        """Export what was published here. Never raises, and never waits."""
        try:
            # Loaded here: most commands publish nothing.
            from ..export.jsonl.automatic import export_all, export_briefly

            (export_all if self._exports_all else export_briefly)(self)
        except (Exception, KeyboardInterrupt) as error:  # the command itself is done
            self._output.detail(f"bus.jsonl is behind: {error}")
        finally:
            with suppress(AckbusError):  # a transaction is open where the command was interrupted
                super().close()
