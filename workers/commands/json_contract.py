"""Work that is done by a command in the json contract: protocol 2.

One JSON object goes to the command's stdin, and one comes from its stdout; anything else there is
an error of protocol, since nobody could tell what was meant. docs/worker-protocol.md has the form.
"""

from __future__ import annotations

from dataclasses import replace

import orjson

from ...schema.arguments import with_checked_arguments
from ...schema.errors import InvalidInput
from ...schema.message.draft import DEDUPE_KEY, Draft
from ...schema.message.times import format_ts
from ...subscribers.jobs.claims import Outcome
from ...subscribers.jobs.job_replies import CONTEXT, carried_on
from ..work import Result
from .raw_contract import EX_CONFIG, EX_TEMPFAIL, Command, how_it_exited, with_its_words
from .response import PROTOCOL, NoResponse, parse_response
from .saved_state import WorkerStates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ...subscribers.jobs.claims import Claim
    from ..processes.run_process import ProcessEnd
    from ..processes.supervisors import Supervisors

#: How long a command of the json contract may take unless it is told otherwise, in seconds.
JSON_TIMEOUT_S = 120.0

#: The meaning of an exit status without a response.
_MEANINGS = {
    EX_TEMPFAIL: "asks for another attempt",
    EX_CONFIG: "forbids another attempt",
}


@with_checked_arguments
class JsonCommand(Command):
    """The json contract: a command reads one JSON request, and prints one JSON response.

    Args:
        bus, argv, group, timeout_s, supervisors: as for `Command`.
        command: what it is asked to do.
        config: what the operator tells it.
    """

    def __init__(
        self,
        bus: Bus,
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

    def do(self, claim: Claim) -> Result:
        """Run the command for a claim."""
        message = claim.message
        if message.payload_error is not None:
            error = f"the payload of message {message.seq} can't be had: {message.payload_error}"
            return Result(Outcome(status="failed", error=error), payload=error)
        end = self._run(claim, orjson.dumps(self._request(claim)))
        badly = self._ended_badly(end)
        if badly is not None:
            return badly
        try:
            return self._result(message, parse_response(end.stdout), end)
        except InvalidInput as error:
            if end.exit_code in _MEANINGS:  # that says it all
                said = f"{how_it_exited(end)}, which {_MEANINGS[end.exit_code]}"
                return self._failure(end, with_its_words(said, end))
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

    def _result(self, message: Message, response: dict[str, Any], end: ProcessEnd) -> Result:
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
        return Result(
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


def _with_response(failure: Result, response: dict[str, Any]) -> Result:
    assert failure.outcome is not None
    outcome = replace(
        failure.outcome, logs=response.get("logs"), retry_after_s=response.get("retry_after_s")
    )
    failure = replace(failure, outcome=outcome)
    return _final_unless(response.get("retry", True), failure)


def _final_unless(is_tried_again: bool, failure: Result) -> Result:
    """Return a failure as it is, or as one that forbids another attempt."""
    if is_tried_again:
        return failure
    assert failure.outcome is not None
    return replace(failure, outcome=replace(failure.outcome, retry=False))
