"""The rating of matches: bm25, with the rarity of words among the newest messages.

The bm25 of SQLite first counts the messages of each phrase in the whole index, those of filters
too: for a common word that takes nearly all of the time. Here the newest messages are the sample.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import apsw

#: The customary constants of bm25: how soon the same word once more counts for little, and how
#: much less a word counts in a long text.
_K1, _B = 1.2, 0.75

#: How many of the newest messages with a word tell how rare it is.
_SAMPLE = 1000

_NEWEST = """
SELECT count(*), min(rowid) FROM (
  SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?)
"""


def weights(connection: apsw.Connection, phrases: Sequence[str], upto_seq: int) -> list[float]:
    """Return the weight of each phrase: the rarer, the heavier.

    Args:
        connection: to the index.
        phrases: expressions, each for one phrase.
        upto_seq: up to where messages are indexed.
    """
    if len(phrases) == 1:
        return [1.0]  # there is nothing to weigh it against
    return [_weight(connection, phrase, upto_seq) for phrase in phrases]


def _weight(connection: apsw.Connection, phrase: str, upto_seq: int) -> float:
    rows: list[Any] = connection.execute(_NEWEST, (phrase, _SAMPLE)).fetchall()
    ((having, first),) = rows
    among = upto_seq - first + 1 if having == _SAMPLE else upto_seq
    return math.log1p((among - having + 0.5) / (having + 0.5))


def rating(weights: Sequence[float]) -> Callable[..., float]:
    """Return a function for SQLite that rates a message: the smaller, the better the match.

    Args:
        weights: of the phrases with which the expression begins; what follows is not rated.
    """

    def rate(api: apsw.FTS5ExtensionApi, *_: object) -> float:
        length = api.column_size(0) / (api.column_total_size(0) / api.row_count)
        least = _K1 * (1 - _B + _B * length)
        times = (len(api.phrase_column_offsets(phrase, 0)) for phrase in range(len(weights)))
        return -sum(
            weight * count / (count + least) for weight, count in zip(weights, times, strict=True)
        )

    return rate
