"""The fence of the service: late writes of an earlier service are refused."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field

import orjson

from ...schema.errors import Refused
from ...schema.process_table import boot_id
from ...schema.queries import Table
from ...subscribers.jobs.policy import kept_error
from .facts import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class ServiceFenced(Refused):
    """Another service of this bus has begun since: this one writes nothing more."""


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """The service as it is stored.

    Attributes:
        token: its fence.
        pid: its process; None where it ended by itself.
        host, boot_id: where that runs.
        directory, config_hash: of its configuration.
        started_at_ms, ready_at_ms, beat_at_ms: when it began, was ready, and was last seen.
    """

    token: int
    pid: int | None
    host: str | None
    boot_id: str | None
    directory: str | None
    config_hash: str | None
    started_at_ms: int | None
    ready_at_ms: int | None
    beat_at_ms: int | None


class Fence(Table):
    """The table `automation_service`: one row, with the token of the current service."""

    def begin(self, directory: Path, config_hash: str) -> int:
        """Draw the token of a service that begins in this process."""
        now_ms = self._engine.now_ms()
        where = (os.getpid(), socket.gethostname(), boot_id(), str(directory), config_hash)
        ((token,),) = self._engine.change(SQL["begin_service"], (*where, now_ms, now_ms))
        return int(token)

    def check(self, token: int) -> None:
        """Refuse writes of any but the newest service; call it in the transaction to guard.

        Raises:
            ServiceFenced: another one has begun since.
        """
        newest = self._engine.value(SQL["service_token"])
        if newest != token:
            raise ServiceFenced(
                f"another service of this bus has begun (its token is {newest}, this one's"
                f" {token}): nothing more is written"
            )

    def ready(self, token: int, config_hash: str) -> None:
        """Note that the service is ready, by a configuration."""
        self._engine.change(SQL["note_ready"], (self._engine.now_ms(), config_hash, token))

    def beat(self, token: int) -> None:
        """Note that the service is there."""
        self._engine.change(SQL["note_beat"], (self._engine.now_ms(), token))

    def end(self, token: int) -> None:
        """Note that the service has ended by itself."""
        self._engine.change(SQL["end_service"], (token,))

    def row(self) -> ServiceRow:
        """Return the service that was there last."""
        row = self._engine.row(SQL["service"])
        return ServiceRow(*row) if row is not None else ServiceRow(0, *[None] * 8)


# The last activation of a configuration: what was left out, or why it was refused.


@dataclass(frozen=True, slots=True)
class Activation:
    """An attempt to activate a configuration, at a start or a reload.

    Attributes:
        number: how many there were on this bus, refused ones too.
        left_out: the configured plugins that can't be loaded, by name, each with the reason. Where
            it was refused, those of the configuration that stays in force.
        refused: why it was refused; None where it is in force.
    """

    number: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None


class Activations(Table):
    """The entry `automation_taking` of the table `meta`."""

    def last(self) -> Activation:
        """Return the last activation; an empty one if there is none or its entry is damaged."""
        try:
            entry = orjson.loads(self._engine.value(SQL["taking"]) or b"{}")
        except orjson.JSONDecodeError:
            entry = {}
        fields = entry if isinstance(entry, dict) else {}
        number, left_out = fields.get("number"), fields.get("left_out")
        refused = fields.get("refused")
        named = left_out.items() if isinstance(left_out, dict) else ()
        return Activation(
            number if isinstance(number, int) else 0,
            {name: str(why) for name, why in named},
            None if refused is None else str(refused),
        )

    def taken(self, left_out: Mapping[str, str]) -> None:
        """Record an activation; call it in the caller's transaction."""
        shown = {name: kept_error(why) or "" for name, why in left_out.items()}
        self._note(Activation(self.last().number + 1, shown))

    def refused(self, why: str) -> None:
        """Record a refused activation; call it in the caller's transaction."""
        last = self.last()
        self._note(Activation(last.number + 1, last.left_out, kept_error(why)))

    def _note(self, activation: Activation) -> None:
        fields = {
            "number": activation.number,
            "left_out": activation.left_out,
            "refused": activation.refused,
        }
        self._engine.change(SQL["set_taking"], (orjson.dumps(fields).decode(),))
