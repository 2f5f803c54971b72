"""Facts and states of plugins: what a plugin reports for good, and what it is told of it."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from ...schema.errors import InvalidInput
from ...schema.message.canonical_json import encode
from ...schema.message.limits import MAX_SEQ
from ...schema.message.times import format_ts
from ...schema.queries import Table
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: The largest state, and the largest snapshot of a fact, in bytes of JSON: 1 MB.
MAX_STATE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Fact:
    """A snapshot that a plugin has reported.

    Attributes:
        id, seq: its numbers; both grow.
        plugin_name, fact_type: whose it is, and what its manifest calls it.
        job_id, command: of the job that reported it.
        fact_json: the snapshot, as JSON text.
        created_at: when, as RFC 3339.
    """

    id: int
    seq: int
    plugin_name: str
    fact_type: str
    job_id: str | None
    command: str | None
    fact_json: str
    created_at: str


class Facts(Table):
    """The tables `plugin_facts` and `plugin_state`; the second is a cache where there are facts."""

    def state(self, plugin: str) -> dict[str, Any]:
        """Return the state that a plugin is given; empty before the first report."""
        text: str | None = self._engine.value(SQL["plugin_state"], (plugin,))
        state: dict[str, Any] = {} if text is None else orjson.loads(text)
        return state

    def states(self) -> list[tuple[str, dict[str, Any], str | None]]:
        """Return the name, the state and the time of its last change of each plugin."""
        rows = self._engine.rows(SQL["plugin_states"])
        return [(plugin, orjson.loads(text), at) for plugin, text, at in rows]

    def record(
        self,
        plugin: str,
        fact_type: str,
        snapshot: Mapping[str, object],
        job_id: str,
        command: str,
        *,
        merges: bool = False,
    ) -> int:
        """Store a fact, which is the plugin's state from then on, and return its id.

        Args:
            merges: only its keys are set in the state; the others stay.

        Raises:
            InvalidInput: it, or the state, is larger than 1 MB; nothing was stored.
        """
        text = _encoded(plugin, snapshot)
        with self._engine.write():
            at = format_ts(self._engine.now_ms())
            fact = (plugin, fact_type, job_id, command, text, at)
            number = self._engine.insert(SQL["add_fact"], fact)
            (self.merge if merges else self.replace)(plugin, snapshot)
        return number

    def merge(self, plugin: str, updates: Mapping[str, object]) -> None:
        """Set the given keys of a plugin's state, and leave the others as they are.

        Raises:
            InvalidInput: the state would be larger than 1 MB; it is unchanged.
        """
        with self._engine.write():
            self.replace(plugin, {**self.state(plugin), **updates})

    def replace(self, plugin: str, state: Mapping[str, object]) -> None:
        """Set a plugin's state, whatever it was.

        Raises:
            InvalidInput: it would be larger than 1 MB; it is unchanged.
        """
        text = _encoded(plugin, state)
        self._engine.change(
            SQL["set_plugin_state"], (plugin, text, format_ts(self._engine.now_ms()))
        )

    def newest(self, plugin: str, limit: int, *, before_seq: int = MAX_SEQ) -> list[Fact]:
        """Return the newest facts of a plugin, the newest first."""
        rows = self._engine.rows(SQL["facts_of_plugin"], (plugin, before_seq, limit))
        return [Fact(*row) for row in rows]

    def prune(self, before: str, limit: int) -> int:
        """Delete facts of before a time, at most so many; the newest of each plugin stays."""
        return self._engine.count_changes(SQL["prune_facts"], (before, limit))


def _encoded(plugin: str, state: Mapping[str, object]) -> str:
    data = encode(state, "state_updates")
    if len(data) > MAX_STATE_BYTES:
        raise InvalidInput(
            f"the state of plugin {plugin} would be {len(data)} bytes of JSON; the limit is"
            f" {MAX_STATE_BYTES}"
        )
    return data.decode()
