"""The roles by which a text comes to a model, in each form of a request."""

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

#: The results of tools, which some forms put under the role of the user.
TOOL = "tool"

#: The results of tools that have a type, in the forms of Anthropic and of OpenAI.
_RESULTS = ("tool_result", "function_call_output", "custom_tool_call_output")

#: The roles of the system and of a developer.
ABOVE_USERS = {"system", "developer"}


def roles_of(words: str, request: Json) -> list[str]:
    """Returns the roles of the parts that have these words, in their order."""
    return [role for role, said in _parts(request) if words in json.dumps(said, ensure_ascii=False)]


def results_in(request: Json) -> list[Any]:
    """Returns the results of tools as they reached the model."""
    return [said for role, said in _parts(request) if role == TOOL]


def _parts(request: Json) -> Iterator[tuple[str, Any]]:
    """The parts of a request, each with its role: what stands above the conversation first."""
    for above in ("system", "instructions", "systemInstruction"):
        if request.get(above):
            yield "system", request[above]
    for message in _conversation(request):
        content = message.get("content", message.get("parts", message))
        for part in content if isinstance(content, list) else [content]:
            is_result = _is_result(message) or _is_result(part)
            yield TOOL if is_result else message.get("role", "assistant"), part


def _conversation(request: Json) -> list[Json]:
    for name in ("messages", "input", "contents"):
        if name in request:
            return list(request[name])
    raise AssertionError(f"a request of an unknown form: {[*request]}")


def _is_result(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    is_named = "functionResponse" in part or part.get("role") == TOOL
    return is_named or part.get("type") in _RESULTS
