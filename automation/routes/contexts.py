"""Contexts: the baggage of each step of a run, which is added to and never changed."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson

from ...schema.errors import NotFound
from ...schema.message.canonical_json import encode
from ...schema.message.times import format_ts, parse_ts
from ...schema.queries import Queries, Table
from .derived_ids import id_of_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

SQL = Queries(beside=__file__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The context of a step.

    Attributes:
        id: as the headers of the step's job name it.
        parent_id: the context that it has grown from, or None.
        pipeline, step: whose it is.
        values: the baggage.
        root_job_id: the first job of the run.
        created_at: when it was stored, as RFC 3339; "" before.
    """

    id: str
    parent_id: str | None = None
    pipeline: str = ""
    step: str = ""
    values: Mapping[str, object] = field(default_factory=dict)
    root_job_id: str | None = None
    created_at: str = ""


class Contexts(Table):
    """The table `event_context`."""

    def get(self, id: str) -> Context | None:
        """Return a context, or None."""
        row = self._engine.row(SQL["context"], (id,))
        if row is None:
            return None
        _, parent_id, pipeline, step, text, root_job_id, created_at = row
        return Context(
            id=id,
            parent_id=parent_id,
            pipeline=pipeline,
            step=step,
            values=orjson.loads(text),
            root_job_id=root_job_id,
            created_at=created_at,
        )

    def values(self, id: str | None) -> dict[str, object]:
        """Return the baggage of a context: what a plugin is told. Without a context it is empty.

        Raises:
            NotFound: it was deleted, long after the end of its run.
        """
        if id is None:
            return {}
        found = self.get(id)
        if found is None:
            raise NotFound(f"there is no context {id} any more: its run ended long ago")
        return dict(found.values)

    def add(self, context: Context) -> None:
        """Store a context, in the transaction of its job; one that is there stays as it is."""
        if self.get(context.id) is not None:
            return
        at = format_ts(self._engine.now_ms())
        text = encode(context.values).decode()
        step = (context.pipeline, context.step)
        values = (context.id, context.parent_id, *step, text, context.root_job_id, at)
        self._engine.change(SQL["add_context"], values)

    def has_older(self, before: str) -> bool:
        """Whether there are contexts of before a time."""
        return bool(self._engine.value(SQL["has_older_contexts"], (_first_id(before),)))

    def runs_of(self, seqs: Sequence[int]) -> set[str]:
        """Return the runs, by the ids of their first jobs, of those jobs that have a context."""
        return {run for (run,) in self._engine.rows(SQL["runs_of_jobs"], (_json(seqs),))}

    def delete(self, before: str, limit: int, kept: Collection[str]) -> int:
        """Delete contexts of before a time, at most so many; return how many went.

        Args:
            before: the time, as RFC 3339.
            limit: how many at most.
            kept: the runs whose contexts stay.
        """
        values = (_first_id(before), _json([*kept]), limit)
        return self._engine.count_changes(SQL["delete_contexts"], values)


def _first_id(at: str) -> str:
    """Return what no id of an earlier time comes after: ids begin with their time."""
    return id_of_time(parse_ts(at))


def _json(values: Sequence[object]) -> str:
    return orjson.dumps(values).decode()
