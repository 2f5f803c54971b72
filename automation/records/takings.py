"""The last taking of a configuration by the service: what was left out, or why it was refused."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson

from ...schema.queries import Table
from ...subscribers.jobs.output_limits import kept_error
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Taking:
    """A taking of a configuration, at a start or a reload.

    Attributes:
        number: how many there were on this bus, refused ones too.
        left_out: the configured plugins that can't be loaded, by name, each with the reason. Where
            it was refused, those of the configuration that stays in force.
        refused: why it was refused; None where it is in force.
    """

    number: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None


class Takings(Table):
    """The entry `automation_taking` of the table `meta`."""

    def last(self) -> Taking:
        """Return the last one; without any, and where the entry is damaged, an empty one."""
        try:
            held = orjson.loads(self._engine.value(SQL["taking"]) or b"{}")
        except orjson.JSONDecodeError:
            held = {}
        fields = held if isinstance(held, dict) else {}
        number, left_out = fields.get("number"), fields.get("left_out")
        refused = fields.get("refused")
        named = left_out.items() if isinstance(left_out, dict) else ()
        return Taking(
            number if isinstance(number, int) else 0,
            {name: str(why) for name, why in named},
            None if refused is None else str(refused),
        )

    def taken(self, left_out: Mapping[str, str]) -> None:
        """Note that one is in force; in the transaction of its caller."""
        shown = {name: kept_error(why) or "" for name, why in left_out.items()}
        self._note(Taking(self.last().number + 1, shown))

    def refused(self, why: str) -> None:
        """Note that one was refused; in the transaction of its caller."""
        last = self.last()
        self._note(Taking(last.number + 1, last.left_out, kept_error(why)))

    def _note(self, taking: Taking) -> None:
        fields = {"number": taking.number, "left_out": taking.left_out, "refused": taking.refused}
        self._engine.change(SQL["set_taking"], (orjson.dumps(fields).decode(),))
