"""`bus publish --jsonl`: many messages, one JSON object a line, 1,000 in one transaction."""

from __future__ import annotations

import os
from contextlib import closing

from ...bus.local_bus import LocalBus
from ...schema.errors import AckbusError, BlobMissing, InvalidInput, Refused, shown
from ...schema.message.canonical_json import decode
from ...schema.message.draft import ABSENT, Draft, parse_priority
from ...schema.message.message import Receipt
from ...schema.message.names import MAX_PAYLOAD_BYTES
from ..arguments import sender as agent_or_default
from ..fast.actions import check_headers, print_receipt
from ..options.payload import open_input
from ..show.output import Output
from ..show.terminal import progress
from ..show.text import counted, within_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

#: How many lines are stored in one transaction.
BATCH_LINES = 1000

#: How many bytes of lines end a transaction early, since they are held in memory.
BATCH_BYTES = 8 * 1024 * 1024

#: The longest line that is read, in bytes: the largest payload, escaped, and room for the rest.
MAX_LINE_BYTES = 2 * MAX_PAYLOAD_BYTES

#: The fields of a line, as in bus.jsonl. The bus assigns `seq` and `ts`: they are ignored.
_NAMES = frozenset(
    {"seq", "id", "ts", "from", "to", "type", "correlation_id", "in_reply_to", "priority"}
    | {"headers", "payload", "payload_ref"}
)


def publish_lines(
    output: Output, bus: LocalBus, name: str, *, sender: str | None, strict: bool
) -> int:
    """Publish every line of a file, and print the ids of a transaction once it has committed.

    Raises:
        AckbusError: a line was refused, or the bus failed; the transactions before stay.
    """
    bus.agents.refuse_several(sender)
    stored = done = 0
    with closing(open_input(name)) as file, progress("publishing", _size(file)) as move:
        try:
            for batch in _batches(file):
                receipts = _publish(bus, batch, sender, strict)
                stored += len(receipts)
                done += sum(len(line) for _, line in batch)
                for receipt in receipts:
                    print_receipt(output, receipt)
                output.flush()
                move(done)
        except AckbusError as error:
            raise _with_place(error, stored) from error
    return 0


class _LineRefused(AckbusError):
    """A line was refused; the cause says why."""

    def __init__(self, number: int, cause: AckbusError) -> None:
        super().__init__(f"line {number}: {within_line(str(cause))}")
        self.exit_code = cause.exit_code


def _with_place(cause: AckbusError, stored: int) -> AckbusError:
    """Return the error with the number of messages that are stored already."""
    error = AckbusError(f"{cause}; stored before that: {counted(stored, 'message')}")
    error.exit_code = cause.exit_code
    return error


def _publish(
    bus: LocalBus, batch: list[tuple[int, bytes]], sender: str | None, strict: bool
) -> list[Receipt]:
    """Publish a batch in one transaction."""
    drafts = []
    for number, line in batch:
        try:
            drafts += [(number, draft) for draft in _drafts(line, sender)]
        except AckbusError as error:
            raise _LineRefused(number, error) from error
    try:
        return bus.publish_many([draft for _, draft in drafts], strict=strict)
    except (InvalidInput, Refused, BlobMissing):
        return _publish_singly(bus, drafts, strict)


def _publish_singly(bus: LocalBus, drafts: list[tuple[int, Draft]], strict: bool) -> list[Receipt]:
    """Publish message by message, to find the refused line; still in one transaction."""
    receipts = []
    with bus.transaction():
        for number, draft in drafts:
            try:
                receipts += bus.publish_many([draft], strict=strict)
            except AckbusError as error:
                raise _LineRefused(number, error) from error
    return receipts


def _drafts(line: bytes, sender: str | None) -> list[Draft]:
    """Return the message of a line, or one for each recipient in its list."""
    if len(line) == MAX_LINE_BYTES:
        raise InvalidInput(f"it is longer than {MAX_LINE_BYTES} bytes")
    record = decode(line, "it")
    if not isinstance(record, dict):
        raise InvalidInput("it is not a JSON object")
    unknown = sorted(record.keys() - _NAMES)
    if unknown:
        raise InvalidInput(f"messages have no field {shown(unknown[0])}")
    if record.get("type") is None:
        raise InvalidInput("it has no 'type'")
    fields: dict[str, Any] = record
    if isinstance(fields.get("headers"), dict):
        check_headers(fields["headers"])
    to = fields.get("to")
    draft = Draft(
        fields["type"],
        fields.get("payload", ABSENT),
        from_agent=fields.get("from") or agent_or_default(sender),
        to_agent=None if isinstance(to, list) else to,
        id=fields.get("id"),
        in_reply_to=fields.get("in_reply_to"),
        correlation_id=fields.get("correlation_id"),
        priority=parse_priority(fields.get("priority", "normal")),
        headers=fields.get("headers"),
        payload_ref=fields.get("payload_ref"),
    )
    return draft.to_each(to) if isinstance(to, list) else [draft]


def _batches(file: BinaryIO) -> Iterator[list[tuple[int, bytes]]]:
    """Yield numbered lines, as many as make a transaction at a time; blank ones are left out."""
    batch: list[tuple[int, bytes]] = []
    size = number = 0
    while line := file.readline(MAX_LINE_BYTES):
        number += 1
        if not line.isspace():
            batch.append((number, line))
            size += len(line)
        if len(batch) == BATCH_LINES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _size(file: BinaryIO) -> int | None:
    """Return how large a regular file is; None for a pipe."""
    return os.fstat(file.fileno()).st_size or None
