"""The state that the commands of a worker group keep from one run to the next."""

from __future__ import annotations

import orjson

from ...schema.errors import InvalidInput
from ...schema.message.canonical_json import encode
from ...schema.queries import Queries, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


SQL = Queries(beside=__file__)

#: The largest state, in bytes of JSON: 1 MB.
MAX_STATE_BYTES = 1_000_000


class WorkerStates(Table):
    """The table `worker_states`: one JSON object for each worker group."""

    def get(self, group: str) -> dict[str, Any]:
        """Return a group's state; empty before the first update."""
        text: str | None = self._engine.value(SQL["worker_state"], (group,))
        state: dict[str, Any] = {} if text is None else orjson.loads(text)
        return state

    def update(self, group: str, updates: dict[str, Any]) -> None:
        """Set the given keys of a group's state, and leave the others as they are.

        Raises:
            InvalidInput: the state would be larger than 1 MB; it is unchanged.
        """
        with self._engine.write():
            state = encode(self.get(group) | updates, "state_updates")
            if len(state) > MAX_STATE_BYTES:
                raise InvalidInput(
                    f"the state of {group} would be {len(state)} bytes of JSON; the limit is"
                    f" {MAX_STATE_BYTES}"
                )
            values = (group, state.decode(), self._engine.now_ms())
            self._engine.rows(SQL["set_worker_state"], values)
