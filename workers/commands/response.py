"""Responses of protocol 2: what a command printed, checked and made whole.

A command that prints a response has done its work. What only comments on it (logs, fields that
nobody knows) fails nothing and is told in the logs. What would be stored or published (a result,
events, updates of the state) fails the attempt where it is broken, and the work is not done again:
it would break in the same way.
"""

from __future__ import annotations

import orjson

from ...schema.errors import InvalidInput, shown
from ...schema.message.canonical_json import decode
from ...schema.message.names import check_type
from ...subscribers.jobs.work_headers import work_headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

#: The version of the contract.
PROTOCOL = 2

#: The fields of a response that count, and the type of each.
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "status": str,
    "result": str,
    "error": str,
    "retry": bool,
    "retry_after_s": (int, float),
    "events": list,
    "state_updates": dict,
}

#: The other fields that a response may have.
_OTHER_FIELDS = ("protocol", "logs")

_EVENT_FIELDS = ("type", "payload", "dedupe_key")

#: The levels of logs. One of another level counts as `info`.
LEVELS = ("debug", "info", "warn", "error")

#: How many unknown names a warning quotes.
_QUOTED = 5


class NoResponse(InvalidInput):
    """Not one JSON object was printed, so nobody knows what the command has done."""


def parse_response(
    printed: bytes,
    *,
    check_event_type: Callable[[object], object] = check_type,
    more_fields: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the response that a command printed. What is null counts as left out.

    Its logs end with a warning for each thing that was overlooked.

    Args:
        printed: its stdout.
        check_event_type: refuses what is no type of an event.
        more_fields: further fields that it may have.

    Raises:
        NoResponse: it is not one JSON object.
        InvalidInput: it is one, and a field that counts is wrong.
    """
    response = _decoded(printed)
    for name in (*_FIELDS, "logs"):
        if name in response and response[name] is None:
            del response[name]
    _check(response, check_event_type)
    logs, told = _read_logs(response.get("logs", []))
    told += _unknown("fields", response, (*_FIELDS, *_OTHER_FIELDS, *more_fields))
    fields = dict.fromkeys(name for event in response.get("events", []) for name in event)
    told += _unknown("fields of events", fields, _EVENT_FIELDS)
    logs += [{"level": "warn", "message": f"the response: {each}"} for each in told]
    if logs or "logs" in response:
        response["logs"] = logs
    return response


def _decoded(printed: bytes) -> dict[str, Any]:
    try:
        response = decode(printed, "the response")
    except InvalidInput as error:
        if isinstance(error.__cause__, orjson.JSONDecodeError):
            raise NoResponse(str(error)) from error
        raise  # it is JSON, beyond what can be stored
    if not isinstance(response, dict):
        raise NoResponse("the response is not a JSON object")
    return response


def _check(response: dict[str, Any], check_event_type: Callable[[object], object]) -> None:
    for name, kind in _FIELDS.items():
        if name in response and not isinstance(response[name], kind):
            named = kind.__name__ if isinstance(kind, type) else "number"
            raise InvalidInput(f"{name} in the response is not of type {named}")
    if isinstance(response.get("retry_after_s"), bool) or response.get("retry_after_s", 0) < 0:
        raise InvalidInput("retry_after_s in the response is not a number from 0 on")
    if response.get("status") not in ("ok", "error"):
        raise InvalidInput("status in the response is neither ok nor error")
    if response["status"] == "ok" and "result" not in response:
        raise InvalidInput("the response is ok, and has no result")
    if response.get("protocol", PROTOCOL) != PROTOCOL:
        raise InvalidInput(
            f"the response is of protocol {shown(response['protocol'])}, not {PROTOCOL}"
        )
    for event in response.get("events", []):
        _check_event(event, check_event_type)


def _check_event(event: object, check_event_type: Callable[[object], object]) -> None:
    if not isinstance(event, dict):
        raise InvalidInput("an event in the response is not an object")
    check_event_type(event.get("type"))
    key = event.get("dedupe_key")
    if isinstance(key, str):
        work_headers(dedupe_key=key)
    elif key is not None:
        raise InvalidInput("the dedupe_key of an event in the response is not of type str")


def _read_logs(logs: object) -> tuple[list[dict[str, Any]], list[str]]:
    """Return logs in the form of the contract, and what was overlooked in them."""
    if not isinstance(logs, list):
        return [], ["logs are an array of objects; what is there was left out"]
    entries = [_entry(each) for each in logs]
    told = _unknown("levels", [each["level"] for each in entries], LEVELS, "they count as info")
    for entry in entries:
        if entry["level"] not in LEVELS:
            entry["level"] = "info"
    return entries, told


def _entry(log: object) -> dict[str, Any]:
    """Return a log as an object with a level and a message; what is none is the message itself."""
    entry: dict[str, Any] = dict(log) if isinstance(log, dict) and "message" in log else {}
    message = entry.get("message", log)
    entry["message"] = message if isinstance(message, str) else orjson.dumps(message).decode()
    entry.setdefault("level", "info")
    return entry


def _unknown(
    kind: str, names: Iterable[object], known: Sequence[str], so: str = "they have no effect"
) -> list[str]:
    """Return what is told of names that are not known: nothing, or one line."""
    unknown = list(dict.fromkeys(shown(each) for each in names if each not in known))
    if not unknown:
        return []
    more = f" and {len(unknown) - _QUOTED} more" if len(unknown) > _QUOTED else ""
    return [f"{', '.join(unknown[:_QUOTED])}{more} are no {kind} of protocol 2; {so}"]
