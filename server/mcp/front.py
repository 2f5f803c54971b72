"""The front: stored answers of the SDK's server, given before the SDK is loaded.

Every client begins by asking what the server is and has, and an agent may begin its first turn with
the tools that are known by then. The front answers a line where the SDK's answer is certain; any
other line is for the SDK's server. Tests compare the two.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

#: The members of `_meta` that tell the protocol and the client where there is no handshake.
PROTOCOL = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT = "io.modelcontextprotocol/clientInfo"

#: The texts by which a client introduces itself; the first two are always there.
_INTRODUCTION = ("name", "version", "title", "description", "websiteUrl")

#: The capabilities with members of any names and kinds.
_OPEN = ("experimental", "extensions")

#: The most brackets of a line: the first requests have few, and parsers differ in how deep they go.
_MAX_BRACKETS = 64


def path_of_answers(profile: str) -> str:
    """Return the file with the answers to a client that is offered a profile."""
    return os.path.join(os.path.dirname(__file__), f"answers_{profile}.json")


class Front:
    """Answers the first lines of a connection.

    Args:
        profile: which tools are offered.

    Attributes:
        opening: the first request that was answered, which decides the protocol.
        is_ready: whether the client then said that it is initialized.
    """

    def __init__(self, profile: str) -> None:
        with open(path_of_answers(profile), "rb") as file:
            self._stored: Json = json.load(file)
        self._had_handshake = False
        self.opening: bytes | None = None
        self.is_ready = False

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a line, empty to a notification; None: the line is for the SDK."""
        message = _read(line)
        method, params = message.get("method"), message.get("params", {})
        if type(method) is not str or type(params) is not dict:
            return None
        if "id" not in message:
            return self._note(method, params)
        result = self._result(method, params)
        if result is None or type(message["id"]) not in (int, str):
            return None
        if self.opening is None:
            self.opening, self._had_handshake = line, method == "initialize"
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def _note(self, method: str, params: Json) -> bytes | None:
        if method != "notifications/initialized" or params or not self._had_handshake:
            return None
        self.is_ready = True
        return b""

    def _result(self, method: str, params: Json) -> Json | None:
        if method == "initialize":
            return self._introduction(params) if self.opening is None else None
        meta = params.get("_meta", {})
        if params.keys() - {"_meta"} or type(meta) is not dict:
            return None
        if type(meta.pop("progressToken", 0)) not in (int, str):
            return None
        answer: Json | None = self._answers_for(meta).get(method)
        return answer

    def _introduction(self, params: Json) -> Json | None:
        if params.keys() != {"protocolVersion", "capabilities", "clientInfo"}:
            return None
        version = params["protocolVersion"]
        introduces = _is_able(params["capabilities"]) and _is_client(params["clientInfo"])
        if type(version) is not str or not introduces:
            return None
        answer: Json | None = self._stored["initialize"].get(version)
        return answer

    def _answers_for(self, meta: Json) -> Json:
        """Return the answers, by method, to requests with these metadata; most have none."""
        answers: Json = {}
        if self._had_handshake:
            answers = {} if meta else self._stored["after initialize"]
        elif meta.keys() - {CLIENT} == {PROTOCOL, CAPABILITIES}:
            introduces = CLIENT not in meta or _is_client(meta[CLIENT])
            if introduces and _is_able(meta[CAPABILITIES]) and type(meta[PROTOCOL]) is str:
                answers = self._stored["without initialize"].get(meta[PROTOCOL], {})
        return answers


def _read(line: bytes) -> Json:
    """Return a message that every parser reads alike, or an empty one."""
    brackets = line.count(b"{") + line.count(b"[")
    if brackets > _MAX_BRACKETS or b"\\u" in line:  # an escape may stand for half a character
        return {}
    try:
        message = json.loads(line.decode(), object_pairs_hook=_unique_members)
    except (ValueError, RecursionError):
        return {}
    if type(message) is not dict or message.keys() - {"jsonrpc", "id", "method", "params"}:
        return {}
    return message if message.get("jsonrpc") == "2.0" else {}


def _unique_members(members: list[tuple[str, Any]]) -> Json:
    """Return an object whose names are all different."""
    members_by_name = dict(members)
    if len(members_by_name) != len(members):
        raise ValueError("a name stands twice")
    return members_by_name


def _is_client(info: object) -> bool:
    """Whether a client introduces itself as the protocol asks, without pictures."""
    return (
        type(info) is dict
        and set(_INTRODUCTION[:2]) <= info.keys() <= set(_INTRODUCTION)
        and all(type(text) is str for text in info.values())
    )


def _is_able(capabilities: object) -> bool:
    """Whether these are capabilities of a client in the protocol's form."""
    return type(capabilities) is dict and all(
        type(capability) is dict
        and (
            all(type(v) is dict for v in capability.values())
            if name in _OPEN
            else _are_flags(capability)
        )
        for name, capability in capabilities.items()
    )


def _are_flags(capability: Json) -> bool:
    return all(
        type(value) is bool if name == "listChanged" else type(value) is dict and _are_flags(value)
        for name, value in capability.items()
    )
