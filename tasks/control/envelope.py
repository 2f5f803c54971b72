"""The envelopes of session events: their one version, their 28 types, and the rules of each."""

from __future__ import annotations

import re
from datetime import datetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    #: Yields what is wrong with a value, each with the way to it: `/level must be text`.
    Rule = Callable[[object], Iterator[str]]

#: The version of the protocol: envelopes of others are refused.
PROTOCOL_VERSION = "0.1.0"

_DATE_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def _text(value: object) -> Iterator[str]:
    if not isinstance(value, str):
        yield " must be text"


def _flag(value: object) -> Iterator[str]:
    if not isinstance(value, bool):
        yield " must be true or false"


def _any_object(value: object) -> Iterator[str]:
    if not isinstance(value, dict):
        yield " must be an object"


def _date_time(value: object) -> Iterator[str]:
    if isinstance(value, str) and _DATE_TIME.fullmatch(value):
        try:
            datetime.fromisoformat(value.upper())
        except ValueError:
            pass
        else:
            return
    yield " must be a time like 2026-01-10T14:00:00Z"


def _one_of(*words: str) -> Rule:
    def rule(value: object) -> Iterator[str]:
        if value not in words:
            yield f" must be one of {', '.join(words)}"

    return rule


def _number(low: float | None, high: float | None, *, is_whole: bool = False) -> Rule:
    def rule(value: object) -> Iterator[str]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield " must be a number"
        elif is_whole and value != int(value):
            yield " must be a whole number"
        elif low is not None and value < low:
            yield f" must be at least {low:g}"
        elif high is not None and value > high:
            yield f" must be at most {high:g}"

    return rule


def _list_of(item: Rule) -> Rule:
    def rule(value: object) -> Iterator[str]:
        if not isinstance(value, list):
            yield " must be a list"
            return
        for place, each in enumerate(value):
            yield from (f"/{place}{wrong}" for wrong in item(each))

    return rule


def _fields(needed: Mapping[str, Rule], allowed: Mapping[str, Rule] | None = None) -> Rule:
    """Return the rule of an object with these fields, and no others."""
    known = {**needed, **(allowed or {})}

    def rule(value: object) -> Iterator[str]:
        if not isinstance(value, dict):
            yield " must be an object"
            return
        for name in needed:
            if name not in value:
                yield f"/{name} is missing"
        for name, each in value.items():
            if name in known:
                yield from (f"/{name}{wrong}" for wrong in known[name](each))
            else:
                yield f"/{str(name)[:40]} is not a field of it"

    return rule


_ARTIFACTS = {"artifacts": _list_of(_fields({"kind": _text}, {"uri": _text, "text": _text}))}
_DETAIL = {"detail": _text}
_ORIGIN = {"origin": _one_of("user", "autonomy")}
_SUGGESTION = {
    **dict.fromkeys(("id", "title", "detail"), _text),
    "effort": _one_of("S", "M", "L"),
}


def _texts(*names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, _text)


#: The rule of the payload of each type.
_PAYLOADS: dict[str, Rule] = {
    "log": _fields({"level": _one_of("debug", "info", "warn", "error"), "message": _text}),
    "scan_result": _fields(
        {**_texts("summary", "gitStatusPorcelain", "gitDiff"), "filesRead": _list_of(_text)}
    ),
    "suggestions": _fields({"items": _list_of(_fields(_SUGGESTION))}),
    "diff_ready": _fields(_texts("unifiedDiff", "diffStat", "branch")),
    "approval_required": _fields(
        {
            **_texts("approvalId", "summary"),
            "action": _one_of("git.commit", "git.push", "other"),
            "details": _any_object,
        }
    ),
    "approved": _fields(_texts("approvalId")),
    "denied": _fields(_texts("approvalId")),
    "committed": _fields(_texts("branch", "commitHash", "message")),
    "assistant_message": _fields(_texts("text")),
    "error": _fields(_texts("message"), _DETAIL),
    "done": _fields({"ok": _flag}),
    "agent_status": _fields(
        {"agentId": _text, "status": _one_of("idle", "busy", "error")}, _texts("message")
    ),
    "task_created": _fields(
        _texts("taskId", "title", "description", "createdBy"),
        {"priority": _text, "tags": _list_of(_text)},
    ),
    "task_started": _fields(_texts("taskId")),
    "task_progress": _fields(_texts("taskId", "message"), {"percent": _number(0, 100)}),
    "task_completed": _fields(_texts("taskId", "summary"), _ARTIFACTS),
    "task_failed": _fields(_texts("taskId", "message"), _DETAIL),
    "tool_call": _fields(
        {**_texts("toolCallId", "tool"), "args": _any_object},
        {"taskId": _text, "requiresApproval": _flag},
    ),
    "tool_result": _fields(
        {"toolCallId": _text, "ok": _flag},
        {
            **_texts("taskId", "stdout", "stderr"),
            "exitCode": _number(None, None, is_whole=True),
            **_ARTIFACTS,
        },
    ),
    "delegate_request": _fields({**_texts("requestId", "toAgentId"), "input": _any_object}),
    "delegate_response": _fields(
        {"requestId": _text, "ok": _flag}, {"output": _any_object, "error": _text}
    ),
    "job_enqueued": _fields(
        {**_texts("jobId", "taskId", "kind"), "params": _any_object},
        {**_ORIGIN, "autonomy": _any_object},
    ),
    "job_claimed": _fields(_texts("jobId", "workerId")),
    "job_completed": _fields(_texts("jobId"), {"summary": _text, **_ARTIFACTS, **_ORIGIN}),
    "job_failed": _fields(_texts("jobId", "message"), {**_DETAIL, **_ORIGIN}),
    "message": _fields(_texts("text"), {"intent": _any_object}),
    "job_log": _fields(
        {
            **_texts("jobId", "line"),
            "stream": _one_of("stdout", "stderr"),
            "seq": _number(1, None, is_whole=True),
        },
        {"ts": _date_time},
    ),
    "status": _fields(
        {"agentId": _text, "state": _one_of("idle", "busy", "error", "shutting_down")},
        {"uptimeMs": _number(0, None), "detail": _text},
    ),
}

#: The types of events.
EVENT_TYPES = frozenset(_PAYLOADS)

_ROUTING = _texts("from", "to", "correlationId", "turnId", "parentId")

_type = _one_of(*_PAYLOADS)

_ENVELOPE = _fields(
    {
        "protocolVersion": _one_of(PROTOCOL_VERSION),
        "id": _text,
        "ts": _date_time,
        "sessionId": _text,
        "type": _type,
        "payload": _any_object,
    },
    {"traceId": _text, **_ROUTING},
)

_COMMAND = _fields({"type": _type, "payload": _any_object}, _ROUTING)
_SAID = _fields(_texts("text"), {"intent": _any_object})


def wrong_in_envelope(envelope: object) -> list[str]:
    """Return what is wrong with the envelope of an event; an empty list if nothing is."""
    found = list(_ENVELOPE(envelope))
    if not found and isinstance(envelope, dict):
        found = wrong_in_payload(envelope["type"], envelope["payload"])
    return found


def wrong_in_payload(type: str, payload: object) -> list[str]:
    """Return what is wrong with the payload of an event of a type, which is one of them."""
    return [f"/payload{wrong}" for wrong in _PAYLOADS[type](payload)]


def wrong_in_command(body: object) -> list[str]:
    """Return what is wrong with an event as an agent posts it, beside its payload's fields."""
    return list(_COMMAND(body))


def wrong_in_message(body: object) -> list[str]:
    """Return what is wrong with a person's message."""
    return list(_SAID(body))
