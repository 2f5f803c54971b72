"""The forecasts that are known: pairs of commits, and the files in which each conflicts."""

from __future__ import annotations

import orjson

from ...schema.message.canonical_json import encode
from ...schema.queries import Table
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    #: Two ids of commits, the lower one first.
    Pair = tuple[str, str]

    #: The files in which a pair conflicts; None: it merges.
    Files = tuple[str, ...] | None

#: How long a pair is kept, in milliseconds: a day. One that is wanted later is merged again.
_KEPT_MS = 86_400_000


class Forecasts(Table):
    """The table `merge_forecasts`. Commits never change, so that what it says stays true."""

    def known(self, pairs: Iterable[Pair]) -> dict[Pair, Files]:
        """Return what is known of some pairs."""
        asked = orjson.dumps(list(pairs)).decode()
        rows = self._engine.rows(SQL["known_forecasts"], (asked,))
        return {
            (a, b): None if files is None else tuple(orjson.loads(files)) for a, b, files in rows
        }

    def note(self, found: Mapping[Pair, Files]) -> None:
        """Store what was found of some pairs, and drop what is old."""
        with self._engine.write():
            now_ms = self._engine.now_ms()
            self._engine.change(SQL["prune_forecasts"], (now_ms - _KEPT_MS,))
            rows = [
                (a, b, None if files is None else encode(list(files)).decode(), now_ms)
                for (a, b), files in found.items()
            ]
            self._engine.run_many(SQL["add_forecast"], rows)
