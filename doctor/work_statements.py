"""The statements that find and mend contradictions between messages, jobs and claims."""

from __future__ import annotations

from ..schema.queries import Queries, file_of, fits_pattern, is_too_wide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..bus.local_bus import LocalBus

#: Statements that put jobs and claims right, and that find those to change.
MENDING = Queries(beside=__file__, file="work.sql")

#: Whether no queue has a message, nor will take it in. A queue of which SQL can't tell what it
#: takes hides nothing, and a message that both it and an inbox have is not lost.
_IS_OF_NO_QUEUE = f"""NOT EXISTS (SELECT 1 FROM queues
  WHERE EXISTS (SELECT 1 FROM jobs WHERE queue_id = queues.id AND jobs.seq = messages.seq)
     OR (filled_seq < messages.seq AND (to_agent IS NULL OR addressed IN ('*', to_agent))
         AND {fits_pattern("type", "pattern")} AND NOT {is_too_wide("pattern")}))"""
MENDING |= {
    name: text.replace("{is_of_no_queue}", _IS_OF_NO_QUEUE) for name, text in MENDING.items()
}


def seqs_of(bus: LocalBus, statement: str, *values: object) -> list[Any]:
    """Return the first column of what a statement of `work.sql` finds, or has changed."""
    return [row[0] for row in file_of(bus).rows(MENDING[statement], values)]
