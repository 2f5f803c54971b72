"""Work that is done by a command in the json contract: protocol 2.

One JSON object goes to the command's stdin, and one comes from its stdout; any other output is an
error of protocol, since its meaning is unknown. docs/worker-protocol.md has the form.
"""

from __future__ import annotations

from dataclasses import replace

import orjson

from ..schema.arguments import with_checked_arguments
from ..schema.errors import InvalidInput, shown
from ..schema.message.canonical_json import decode, encode
from ..schema.message.draft import DEDUPE_KEY, Draft
from ..schema.message.names import check_type
from ..schema.message.times import format_ts
from ..schema.queries import Queries, Table
from ..subscribers.jobs.claims import Outcome
from ..subscribers.jobs.outcomes import CONTEXT, carried_on
from ..subscribers.jobs.policy import work_headers
from .raw_contract import EX_CONFIG, EX_TEMPFAIL, ContractCommand, how_it_exited, with_stderr_line
from .work import AttemptResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from ..bus.local_bus import LocalBus
    from ..schema.message.message import Message
    from ..subscribers.jobs.claims import Claim
    from .processes.run_process import ProcessEnd
    from .processes.supervisors import Supervisors

# Responses of protocol 2: what a command printed, checked and made whole.
#
# A command that prints a response has done its work. What only comments on it (logs, fields that
# nobody knows) fails nothing and is told in the logs. What would be stored or published (a
# result, events, updates of the state) fails the attempt where it is broken, and the work is not
# done again: it would break in the same way.

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
    """The output is not one JSON object, so it is unknown what the command has done."""


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
        InvalidInput: it is a JSON object, and a field that counts is wrong.
    """
    response = _decoded(printed)
    for name in (*_FIELDS, "logs"):
        if name in response and response[name] is None:
            del response[name]
    _check(response, check_event_type)
    logs, overlooked = _read_logs(response.get("logs", []))
    overlooked += _unknown("fields", response, (*_FIELDS, *_OTHER_FIELDS, *more_fields))
    fields = dict.fromkeys(name for event in response.get("events", []) for name in event)
    overlooked += _unknown("fields of events", fields, _EVENT_FIELDS)
    logs += [{"level": "warn", "message": f"the response: {sentence}"} for sentence in overlooked]
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
    entries = [_entry(log) for log in logs]
    overlooked = _unknown("levels", [log["level"] for log in entries], LEVELS, "they count as info")
    for entry in entries:
        if entry["level"] not in LEVELS:
            entry["level"] = "info"
    return entries, overlooked


def _entry(log: object) -> dict[str, Any]:
    """Return a log as an object with a level and a message; what is none is the message itself."""
    entry: dict[str, Any] = dict(log) if isinstance(log, dict) and "message" in log else {}
    message = entry.get("message", log)
    entry["message"] = message if isinstance(message, str) else orjson.dumps(message).decode()
    entry.setdefault("level", "info")
    return entry


def _unknown(
    kind: str, names: Iterable[object], allowed: Sequence[str], so: str = "they have no effect"
) -> list[str]:
    """Return the warnings about names that are not allowed: none, or a line."""
    unknown = list(dict.fromkeys(shown(name) for name in names if name not in allowed))
    if not unknown:
        return []
    more = f" and {len(unknown) - _QUOTED} more" if len(unknown) > _QUOTED else ""
    return [f"{', '.join(unknown[:_QUOTED])}{more} are no {kind} of protocol 2; {so}"]


# The state that the commands of a worker group keep from one run to the next.

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


#: How long a command of the json contract may take by default, in seconds.
JSON_TIMEOUT_S = 120.0

#: The meaning of an exit status without a response.
_MEANINGS_OF_CODES = {
    EX_TEMPFAIL: "asks for another attempt",
    EX_CONFIG: "forbids another attempt",
}


@with_checked_arguments
class JsonCommand(ContractCommand):
    """The json contract: a command reads one JSON request, and prints one JSON response.

    Args:
        bus, argv, group, timeout_s, supervisors: as for `ContractCommand`.
        command: the name of the command, for its request.
        config: the operator's configuration, for its request.
    """

    def __init__(
        self,
        bus: LocalBus,
        argv: Sequence[str],
        *,
        group: str,
        timeout_s: float | None = JSON_TIMEOUT_S,
        command: str = "handle",
        config: dict[str, Any] | None = None,
        supervisors: Supervisors | None = None,
    ) -> None:
        super().__init__(bus, argv, group=group, timeout_s=timeout_s, supervisors=supervisors)
        self._command = command
        self._config = config or {}
        self._states = WorkerStates.of(bus)

    def do(self, claim: Claim) -> AttemptResult:
        """Run the command for a claim."""
        message = claim.message
        if message.payload_error is not None:
            error = f"the payload of message {message.seq} can't be had: {message.payload_error}"
            return AttemptResult(Outcome(status="failed", error=error), payload=error)
        end = self._run(claim, orjson.dumps(self._request(claim)))
        badly = self._ended_badly(end)
        if badly is not None:
            return badly
        try:
            return self._result(message, parse_response(end.stdout), end)
        except InvalidInput as error:
            if end.exit_code in _MEANINGS_OF_CODES:  # the code needs no error of the parser
                how = f"{how_it_exited(end)}, which {_MEANINGS_OF_CODES[end.exit_code]}"
                return self._failure(end, with_stderr_line(how, end))
            if end.exit_code:
                return self._failure(end, f"{how_it_exited(end)}; {error}")
            return _final_unless(
                isinstance(error, NoResponse), self._failure(end, f"protocol error: {error}")
            )

    def _request(self, claim: Claim) -> dict[str, object]:
        message = claim.message
        context = message.headers.get(CONTEXT)
        now_ms = self._bus.now_ms()
        deadline_ms = None if self._timeout_s is None else now_ms + round(self._timeout_s * 1000)
        return {
            "protocol": PROTOCOL,
            "job_id": f"{claim.queue}:{message.seq}",
            "command": self._command,
            "config": self._config,
            "state": self._states.get(self._group),
            "context": context if isinstance(context, dict) else {},
            "event": _event(message),
            "deadline_at": None if deadline_ms is None else format_ts(deadline_ms),
        }

    def _result(self, message: Message, response: dict[str, Any], end: ProcessEnd) -> AttemptResult:
        """Return the result of a well-formed response. A bad exit status outweighs what it says."""
        if end.exit_code or response["status"] == "error":
            error = response.get("error") or (
                how_it_exited(end) if end.exit_code else "the command says error, and not which"
            )
            failure = self._failure(end, error)
            return _with_response(failure, response)
        drafts = tuple(self._draft(message, event) for event in response.get("events", []))
        outcome = Outcome(
            exit_code=0,
            result=response["result"],
            stderr=end.stderr.decode(errors="replace"),
            logs=response.get("logs"),
            retry=False,  # where what follows can't be stored: the work has been done
        )
        return AttemptResult(
            outcome,
            payload=response["result"],
            headers=self._headers(outcome),
            drafts=drafts,
            state_updates=response.get("state_updates"),
        )

    def _draft(self, message: Message, event: dict[str, Any]) -> Draft:
        headers = carried_on(message)
        if event.get("dedupe_key"):
            headers[DEDUPE_KEY] = event["dedupe_key"]
        return Draft(
            event["type"],
            event.get("payload"),
            from_agent=self._group,
            in_reply_to=message.id,
            correlation_id=message.conversation,
            priority=message.priority,
            headers=headers,
        )


def _event(message: Message) -> dict[str, object]:
    """Return a message as the event that a command is asked to handle."""
    event: dict[str, object] = {
        "type": message.type,
        "payload": message.payload,
        "source": message.from_agent,
        "timestamp": format_ts(message.ts_ms),
        "event_id": message.id,
    }
    key = message.headers.get(DEDUPE_KEY)
    return event | {DEDUPE_KEY: key} if key is not None else event


def _with_response(failure: AttemptResult, response: dict[str, Any]) -> AttemptResult:
    assert failure.outcome is not None
    outcome = replace(
        failure.outcome, logs=response.get("logs"), retry_after_s=response.get("retry_after_s")
    )
    failure = replace(failure, outcome=outcome)
    return _final_unless(response.get("retry", True), failure)


def _final_unless(is_tried_again: bool, failure: AttemptResult) -> AttemptResult:
    """Return a failure as it is, or as a failure that forbids another attempt."""
    if is_tried_again:
        return failure
    assert failure.outcome is not None
    return replace(failure, outcome=replace(failure.outcome, retry=False))
