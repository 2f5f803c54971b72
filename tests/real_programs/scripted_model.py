"""A scripted stand-in for the models behind coding agents, in each form in which they are asked.

It calls the tools of its script where they are offered, one after the other, once in a
conversation; else it says that it is done. Where Codex defers them, it calls them by code. What it
was asked is kept: there one sees what reaches a model's context.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: How a call is known again in later requests, with its number.
CALL = "call_of_the_script"

SAID = "I am done."

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """The call of a tool.

    Attributes:
        tool: its name; programs may put the name of a server before it.
        arguments: what it is given; or a function of what the model was sent, as JSON.
    """

    tool: str
    arguments: Json | Callable[[str], Json]


@dataclass(frozen=True)
class Tool:
    """A tool that a request offers.

    Codex keeps the tools of a server in a namespace; or it only names that, and code calls them.
    """

    name: str
    namespace: str | None
    by_code: bool = False


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool that a request offers, as an answer has it."""

    id: str
    name: str
    namespace: str | None
    arguments: Json
    by_code: bool = False


class ScriptedModel:
    """A server on this machine.

    Attributes:
        url: where it is.
        script: the calls that it answers with, in order.
        asked: the requests that offered the first tool, in order: what the agent's own loop sent.
        heard: all requests, in order; the tool may not be there yet.
        failure: why the script can't go on, or None.
        before_call: called before the first tool is.
        before_last: called before the last one is.
    """

    def __init__(self, url: str, *script: Call) -> None:
        self.url = url
        self.script = script
        self.asked: list[Json] = []
        self.heard: list[Json] = []
        self.failure: str | None = None
        self.before_call: Callable[[], None] = lambda: None
        self.before_last: Callable[[], None] = lambda: None
        self._lock = threading.Lock()  # programs ask for titles meanwhile

    def answer(self, path: str, request: Json) -> str:
        """Return the answer to a request: a stream of server-sent events."""
        call = None
        self.heard.append(request)
        if offered(self.script[0].tool, request):
            with self._lock:
                self.asked.append(request)
                call = self._next(request)
        form = next(form for end, form in _FORMS.items() if end in path)
        return "".join(_event(event) for event in form(call))

    def _next(self, request: Json) -> ToolCall | None:
        """Return the first call of the script that the conversation has not had yet."""
        seen = json.dumps(request)
        done = sum(f"{CALL}_{number}" in seen for number in range(len(self.script)))
        if done == len(self.script):
            return None
        if not done:
            self.before_call()
        if done == len(self.script) - 1:
            self.before_last()
        call = self.script[done]
        tool = offered(call.tool, request)
        try:
            assert tool is not None, f"{call.tool} is not offered"
            arguments = call.arguments(seen) if callable(call.arguments) else call.arguments
        except AssertionError as error:  # raised here, it would be seen by the program alone
            self.failure = str(error)
            return None
        return ToolCall(f"{CALL}_{done}", tool.name, tool.namespace, arguments, tool.by_code)


def offered(wanted: str, request: Json) -> Tool | None:
    """Return the tool that a request offers, in a list or to code; None: it does not."""
    deferred = re.search(r"Deferred tool namespaces:.*?\\n- (mcp__\w+)", json.dumps(request))
    if deferred and not _listed(wanted, request.get("tools") or []):
        return Tool(f"{deferred[1]}__{wanted}", None, by_code=True)
    return _listed(wanted, request.get("tools") or [])


def _listed(wanted: str, tools: list[Json], namespace: str | None = None) -> Tool | None:
    for tool in tools:
        inside = tool.get("functionDeclarations") or tool.get("tools")
        if inside:
            found = _listed(wanted, inside, tool.get("name"))
        else:
            name = str(tool.get("function", tool).get("name"))
            is_it = re.fullmatch(rf"(.*[_/-])?{wanted}", name)
            found = Tool(name, namespace) if is_it else None
        if found:
            return found
    return None


def _event(event: Json) -> str:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


# forms ---------------------------------------------------------------------------------------


def _messages(call: ToolCall | None) -> list[Json]:
    """Anthropic's Messages API."""
    block: Json = {"type": "text", "text": ""}
    delta: Json = {"type": "text_delta", "text": SAID}
    if call is not None:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}
    begun: Json = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    ended = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


def _responses(call: ToolCall | None) -> list[Json]:
    """OpenAI's Responses API."""
    said = [{"type": "output_text", "text": SAID, "annotations": []}]
    item: Json = {"type": "message", "id": "msg_1", "role": "assistant", "content": said}
    if call is not None:
        called = {"call_id": call.id, "name": call.name, "namespace": call.namespace}
        item = {
            "type": "function_call",
            "id": "fc_1",
            "arguments": json.dumps(call.arguments),
            **called,
        }
    if call is not None and call.by_code:
        code = f"text(await tools.{call.name}({json.dumps(call.arguments)}))"
        item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": call.id, "input": code}
        item |= {"name": "exec", "namespace": "functions"}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {"id": "resp_1", "output": [item], "usage": usage}
    return [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]


def _completions(call: ToolCall | None) -> list[Json]:
    """OpenAI's Chat Completions API."""
    delta: Json = {"role": "assistant", "content": SAID}
    if call is not None:
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        made = {"index": 0, "id": call.id, "type": "function", "function": function}
        delta = {"role": "assistant", "tool_calls": [made]}
    about = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    last = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return [
        {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**about, "choices": [last], "usage": usage},
    ]


def _gemini(call: ToolCall | None) -> list[Json]:
    """Google's Gemini API."""
    part: Json = {"text": SAID}
    if call is not None:
        part = {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}
    content = {"role": "model", "parts": [part]}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return [{"candidates": [candidate], "usageMetadata": usage}]


#: By what a path has in it.
_FORMS: dict[str, Callable[[ToolCall | None], list[Json]]] = {
    "/messages": _messages,
    "/responses": _responses,
    "/chat/completions": _completions,
    ":streamGenerateContent": _gemini,
}


# server --------------------------------------------------------------------------------------


@contextmanager
def scripted_model(*script: Call) -> Iterator[ScriptedModel]:
    """Serve a scripted model, on a port of its own, as long as the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = model.answer(self.path, request).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Be silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model = ScriptedModel(f"http://127.0.0.1:{server.server_port}", *script)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield model
        server.shutdown()
