"""The rules of envelopes: every type with a good payload and a bad one, every field."""

import copy
from typing import Any

import pytest

from ackbus.tasks.control.sessions import (
    PROTOCOL_VERSION,
    wrong_in_command,
    wrong_in_envelope,
)

ARTIFACT = {"kind": "diff", "uri": "file:///x", "text": "+1"}

#: A payload of each type with all its fields.
GOOD: dict[str, dict[str, Any]] = {
    "log": {"level": "warn", "message": "slow"},
    "scan_result": {"summary": "s", "filesRead": ["a"], "gitStatusPorcelain": "", "gitDiff": ""},
    "suggestions": {"items": [{"id": "1", "title": "t", "detail": "d", "effort": "M"}]},
    "diff_ready": {"unifiedDiff": "", "diffStat": "", "branch": "b"},
    "approval_required": {"approvalId": "a", "action": "git.push", "summary": "s", "details": {}},
    "approved": {"approvalId": "a"},
    "denied": {"approvalId": "a"},
    "committed": {"branch": "b", "commitHash": "c", "message": "m"},
    "assistant_message": {"text": "hello"},
    "error": {"message": "m", "detail": "d"},
    "done": {"ok": True},
    "agent_status": {"agentId": "a", "status": "busy", "message": "m"},
    "task_created": {
        "taskId": "t",
        "title": "t",
        "description": "d",
        "createdBy": "c",
        "priority": "normal",
        "tags": ["x"],
    },
    "task_started": {"taskId": "t"},
    "task_progress": {"taskId": "t", "message": "m", "percent": 99.5},
    "task_completed": {"taskId": "t", "summary": "s", "artifacts": [ARTIFACT]},
    "task_failed": {"taskId": "t", "message": "m", "detail": "d"},
    "tool_call": {
        "toolCallId": "c",
        "tool": "git",
        "args": {"x": [1]},
        "taskId": "t",
        "requiresApproval": False,
    },
    "tool_result": {
        "toolCallId": "c",
        "ok": False,
        "taskId": "t",
        "stdout": "",
        "stderr": "",
        "exitCode": 1,
        "artifacts": [],
    },
    "delegate_request": {"requestId": "r", "toAgentId": "a", "input": {}},
    "delegate_response": {"requestId": "r", "ok": True, "output": {}, "error": "e"},
    "job_enqueued": {"jobId": "j", "taskId": "t", "kind": "k", "params": {}},
    "job_claimed": {"jobId": "j", "workerId": "w"},
    "job_completed": {"jobId": "j", "summary": "s", "artifacts": [ARTIFACT]},
    "job_failed": {"jobId": "j", "message": "m", "detail": "d"},
    "message": {"text": "hello", "intent": {"kind": "ask"}},
    "job_log": {"jobId": "j", "stream": "stderr", "seq": 1, "line": "x"},
    "status": {"agentId": "a", "state": "shutting_down", "uptimeMs": 5, "detail": "d"},
}

#: What each type does not need.
OPTIONAL = {
    *("detail", "artifacts", "priority", "tags", "percent", "intent", "uptimeMs", "output"),
    *("stdout", "stderr", "exitCode", "requiresApproval", "uri"),
}
OPTIONAL_IN = {
    "agent_status": {"message"},
    "tool_call": {"taskId"},
    "tool_result": {"taskId"},
    "delegate_response": {"error"},
    "job_completed": {"summary"},
}


def envelope(type: str = "log", payload: object = None) -> dict[str, Any]:
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "id": "e1",
        "ts": "2026-01-10T14:00:00.000Z",
        "sessionId": "s1",
        "type": type,
        "payload": copy.deepcopy(GOOD[type]) if payload is None else payload,
    }


def test_u_17_there_are_28_types() -> None:
    """U-17: and each has a sample here."""
    (fault,) = wrong_in_envelope(envelope() | {"type": "none"})
    types = fault.removeprefix("/type must be one of ").split(", ")
    assert len(types) == 28
    assert GOOD.keys() == set(types)


@pytest.mark.parametrize("type", sorted(GOOD))
def test_u_17_a_good_payload_of_each_type_passes_and_a_bad_one_fails(type: str) -> None:
    """U-17, U-18: every field that it needs, of its own type, and no other."""
    good = GOOD[type]
    assert wrong_in_envelope(envelope(type)) == []
    assert wrong_in_envelope(envelope(type, good | {"more": 1})) == [
        "/payload/more is not a field of it"
    ]
    for name in good:
        without = {key: value for key, value in good.items() if key != name}
        may_lack = name in OPTIONAL | OPTIONAL_IN.get(type, set())
        if type in ("scan_result", "suggestions", "diff_ready", "approval_required"):
            may_lack = False
        expected = [] if may_lack else [f"/payload/{name} is missing"]
        assert wrong_in_envelope(envelope(type, without)) == expected
        (wrong,) = wrong_in_envelope(envelope(type, good | {name: None}))
        assert wrong.startswith(f"/payload/{name} must be ")


@pytest.mark.parametrize(
    ("type", "changed"),
    [
        ("log", {"level": "loud"}),
        ("task_progress", {"percent": -0.1}),
        ("task_progress", {"percent": 100.5}),
        ("task_progress", {"percent": True}),
        ("job_log", {"stream": "stdin"}),
        ("job_log", {"seq": 0}),
        ("job_log", {"seq": 1.5}),
        ("job_log", {"ts": "yesterday"}),
        ("status", {"state": "offline"}),
        ("agent_status", {"status": "shutting_down"}),
        ("approval_required", {"action": "rm"}),
        ("suggestions", {"items": [{"id": "1", "title": "t", "detail": "d", "effort": "XL"}]}),
        ("suggestions", {"items": [{"id": "1"}]}),
        ("task_completed", {"artifacts": [{"uri": "x"}]}),
        ("tool_result", {"exitCode": "1"}),
    ],
)
def test_u_18_values_outside_the_rules_are_refused(type: str, changed: dict[str, Any]) -> None:
    """U-18: levels, percents, streams, places, states, actions, efforts."""
    assert wrong_in_envelope(envelope(type, GOOD[type] | changed))


def test_u_16_an_envelope_has_its_fields_and_no_others() -> None:
    """U-16: none missing, none unknown, one version, a time."""
    whole = envelope() | dict.fromkeys(
        ("traceId", "from", "to", "correlationId", "parentId", "turnId"), "x"
    )
    assert wrong_in_envelope(whole) == []
    for name in envelope():
        without = {key: value for key, value in whole.items() if key != name}
        assert wrong_in_envelope(without) == [f"/{name} is missing"]
        assert wrong_in_envelope(whole | {name: 7})
    for name in whole.keys() - envelope().keys():
        assert wrong_in_envelope(whole | {name: 7}) == [f"/{name} must be text"]
    assert wrong_in_envelope(whole | {"more": "x"}) == ["/more is not a field of it"]
    for ts in (
        "",
        "2026-01-10",
        "2026-01-10T14:00:00",
        "2026-13-10T14:00:00Z",
        "now",
        "1768053600",
    ):
        assert wrong_in_envelope(whole | {"ts": ts}) == [
            "/ts must be a time like 2026-01-10T14:00:00Z"
        ]
    assert wrong_in_envelope(whole | {"ts": "2026-01-10T14:00:00+02:00"}) == []
    for nothing in (None, [], "x", 7):
        assert wrong_in_envelope(nothing) == [" must be an object"]


@pytest.mark.parametrize("version", ["0.0.9", "0.2.0", "1.0.0", ""])
def test_u_81_an_envelope_of_another_version_is_refused(version: str) -> None:
    """U-81: the version of the protocol is one, and the refusal names it."""
    assert wrong_in_envelope(envelope() | {"protocolVersion": version}) == [
        "/protocolVersion must be one of 0.1.0"
    ]


def test_u_25_a_command_needs_a_known_type_and_a_payload() -> None:
    """U-25: how the payload looks is not looked at here."""
    assert wrong_in_command({"type": "log", "payload": {}, "from": "a", "turnId": "t"}) == []
    for body in ({"type": "log"}, {"payload": {}}, {"type": "nothing", "payload": {}}, {}):
        assert wrong_in_command(body)
    assert wrong_in_command({"type": "log", "payload": {}, "id": "x"})
