"""Texts of a client as messages of JSON-RPC. To one that is none the SDK says too little."""

from __future__ import annotations

import json
from types import NoneType
from typing import Any

from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

#: The method of a call of a tool.
_CALL = "tools/call"


class Unreadable(Exception):
    """A text is no message, or no call of a tool, and its client may wait for an answer.

    Args:
        code: of the error.
        why: what is wrong, and what to do.
        given: the text as JSON, as far as it is any.

    Attributes:
        answer: the answer to it, a line.
    """

    def __init__(self, code: int, why: str, given: Any) -> None:
        super().__init__(why)
        id = given.get("id") if type(given) is dict else None
        about = {"code": code, "message": f"{why}. Nothing was done."}
        answer = {"jsonrpc": "2.0", "id": id if type(id) in (int, str) else None, "error": about}
        self.answer = json.dumps(answer) + "\n"


def read_message(text: bytes) -> JSONRPCMessage | None:
    """Return the message of a text; None: it is blank, or an answer that nothing can be made of.

    Raises:
        Unreadable: it is none, and must be answered.
    """
    try:
        message = jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError as error:
        given = _given(text)
        if not text.strip() or _is_answer(given):
            return None
        raise _unreadable(error, given) from error
    # Otherwise the SDK takes a request whose id is of another kind for a notification.
    if isinstance(message, JSONRPCNotification) and b'"id"' in text:
        given = _given(text)
        if "id" in given:
            raise Unreadable(INVALID_REQUEST, "id must be text or an integer", given)
    if isinstance(message, JSONRPCRequest) and message.method == _CALL:
        _check_call(message)
    return message


def _check_call(request: JSONRPCRequest) -> None:
    """Refuse a call of a tool whose parts are of other kinds: the SDK would not say which."""
    params = request.params or {}
    wrong = []
    if type(params.get("name")) is not str:
        wrong.append("name must be text, the name of a tool")
    if type(params.get("arguments")) not in (dict, NoneType):
        wrong.append("arguments must be an object, each argument by its name")
    if wrong:
        raise Unreadable(INVALID_PARAMS, "; ".join(wrong), {"id": request.id})


def _given(text: bytes) -> Any:
    try:
        return json.loads(text.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def _is_answer(given: Any) -> bool:
    """Whether an error may not be sent: two that send errors for errors would never end."""
    return (
        type(given) is dict and "method" not in given and bool(given.keys() & {"result", "error"})
    )


def _unreadable(error: ValidationError, given: Any) -> Unreadable:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return Unreadable(PARSE_ERROR, f"no JSON: {first['ctx']['error']}", given)
    if type(given) is list:
        why = "no batches are taken: send each message by itself"
    else:
        why = (
            "no message of JSON-RPC 2.0: a request has jsonrpc, id (text or an integer), method,"
            " and params (an object)"
        )
    return Unreadable(INVALID_REQUEST, why, given)
