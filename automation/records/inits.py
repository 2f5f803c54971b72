"""The last `init` of each plugin, so that it runs once for each form of the plugin."""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.queries import Table
from ...subscribers.jobs.output_limits import kept_error
from .statements import SQL


@dataclass(frozen=True, slots=True)
class Init:
    """The last `init` of a plugin.

    Attributes:
        plugin: its name.
        fingerprint: of the plugin and its configuration then.
        state: `ok` or `failed`.
        error: why it failed, or None.
        at_ms: when it ended, in epoch milliseconds.
    """

    plugin: str
    fingerprint: str
    state: str
    error: str | None
    at_ms: int


class Inits(Table):
    """The table `plugin_inits`."""

    def all(self) -> dict[str, Init]:
        """Return the last one of each plugin."""
        return {row[0]: Init(*row) for row in self._engine.rows(SQL["inits"])}

    def note(self, plugin: str, fingerprint: str, error: str | None) -> None:
        """Note how one has ended; None is no error."""
        state = "ok" if error is None else "failed"
        values = (plugin, fingerprint, state, kept_error(error), self._engine.now_ms())
        self._engine.change(SQL["set_init"], values)

    def forget(self, plugin: str) -> None:
        """Forget a plugin that was removed: it is a new one when it comes again."""
        self._engine.change(SQL["forget_init"], (plugin,))
