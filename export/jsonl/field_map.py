"""Reading other programs' JSONL: the mapping of their fields to ours."""

from __future__ import annotations

from ...schema.arguments import with_checked_arguments
from ...schema.errors import InvalidInput, shown
from ...schema.message.draft import ABSENT, Draft, NotJson
from ...schema.message.priority import parse_priority
from ...schema.message.times import parse_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

#: The names of a line of `bus.jsonl` that an import reads; the bus gives a new `seq`.
FIELDS = (
    *("id", "ts", "from", "to", "type", "correlation_id", "in_reply_to", "priority"),
    *("headers", "payload", "payload_ref"),
)

_HEADER = "headers."


@with_checked_arguments
class FieldMap:
    """The source of each field of a message.

    Without entries it reads lines of `bus.jsonl`. An entry `ours=theirs` reads our field from
    their field; `ours=theirs|text` takes the text where theirs is absent. `headers.NAME=theirs`
    puts their field into the headers; `headers.*=*` puts all fields there that nothing else reads.

    Args:
        entries: texts of one or more entries, separated by commas.

    Attributes:
        unread: the names of the ignored fields of all records so far.

    Raises:
        InvalidInput: an entry has another form, or names a field that messages do not have.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._sources: dict[str, tuple[str, str | None]] = {}
        self._headers: dict[str, str] = {}
        self._keeps_rest = False
        self.unread: set[str] = set()
        for entry in (part for text in entries for part in text.split(",")):
            self._add(entry)
        taken = {source for source, _ in self._sources.values()} | set(self._headers.values())
        for name in FIELDS:
            if name not in self._sources and name not in taken:
                self._sources[name] = (name, None)
        self._read = taken | {source for source, _ in self._sources.values()}
        self._read |= {"seq", "payload_error"}

    def _add(self, entry: str) -> None:
        ours, equals, theirs = entry.strip().partition("=")
        theirs, bar, default = theirs.partition("|")
        if not equals or not theirs:
            raise InvalidInput(f"{shown(entry)} is not a field map entry like type=kind")
        if entry.strip() == "headers.*=*":
            self._keeps_rest = True
        elif ours.startswith(_HEADER) and ours != _HEADER and not bar:
            self._headers[ours.removeprefix(_HEADER)] = theirs
        elif ours in FIELDS:
            self._sources[ours] = (theirs, default if bar else None)
        else:
            raise InvalidInput(
                f"messages have no field {shown(ours)}; they have {', '.join(FIELDS)}, headers.NAME"
            )

    def draft(self, record: Mapping[str, Any]) -> Draft:
        """Return the message of one record.

        Raises:
            InvalidInput: a field is missing or has no meaning for a message.
        """
        if not self._keeps_rest:
            self.unread |= record.keys() - self._read
        fields = {name: self._value(record, name) for name in FIELDS}
        for name in ("id", "from", "type"):
            if fields[name] is None:
                theirs = self._sources.get(name, (name,))[0]
                raise InvalidInput(f"it has no {shown(theirs)}; see --map")
        priority = fields["priority"]
        return Draft(
            fields["type"],
            _as_it_was_stored(self._payload(record), record),
            id=fields["id"],
            from_agent=fields["from"],
            to_agent=fields["to"],
            correlation_id=fields["correlation_id"],
            in_reply_to=fields["in_reply_to"],
            priority=1 if priority is None else parse_priority(priority),
            headers=self._all_headers(record, fields["headers"]),
            payload_ref=fields["payload_ref"],
            ts_ms=None if fields["ts"] is None else parse_ts(str(fields["ts"])),
        )

    def _value(self, record: Mapping[str, Any], name: str) -> Any:
        source, default = self._sources.get(name, (name, None))
        if name not in self._sources:
            return None  # their field of this name is read for something else
        value = record.get(source)
        return default if value is None else value

    def _payload(self, record: Mapping[str, Any]) -> object:
        source, default = self._sources.get("payload", (None, None))
        if source is not None and source in record:
            return record[source]
        return ABSENT if default is None else default

    def _all_headers(self, record: Mapping[str, Any], own: object) -> dict[str, object]:
        if own is not None and not isinstance(own, dict):
            raise InvalidInput("its headers are not a JSON object")
        headers: dict[str, object] = dict(own or {})
        headers.update(
            {name: record[source] for name, source in self._headers.items() if source in record}
        )
        if self._keeps_rest:
            headers.update({key: record[key] for key in record if key not in self._read})
        return headers


def _as_it_was_stored(payload: object, record: Mapping[str, Any]) -> object:
    """Return the payload; one that was not JSON stands in the record as a string."""
    if "payload_error" not in record:
        return payload
    if record["payload_error"] != "decode_failed" or not isinstance(payload, str):
        raise InvalidInput("its payload could not be had when it was exported")
    return NotJson(payload)
