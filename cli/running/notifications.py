"""Notices of answers, on the desktop or on the terminal. A failing notice is no error."""

from __future__ import annotations

import html
import shlex
import shutil
from functools import partial

import orjson

from ...schema.children import run_child
from ...schema.errors import InvalidInput
from ..show.output import Output
from ..show.text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...schema.message.message import Message

    Notifier = Callable[[Message], None]

#: The environment variable that chooses the kind of notices.
BACKEND_VARIABLE = "BUS_NOTIFY_BACKEND"

#: The program that shows notices on a desktop.
_PROGRAM = "notify-send"

#: How long it may take, in seconds.
_PROGRAM_TIMEOUT_S = 5.0

#: How much of an answer a notice shows, in characters.
PREVIEW_CHARS = 80


def notifier_of(output: Output, environment: Mapping[str, str]) -> Notifier:
    """Return the notifier: the environment's choice, or else the best that is installed.

    Raises:
        InvalidInput: the choice is unknown.
    """
    backends: dict[str, Notifier] = {
        "desktop": partial(_on_desktop, output),
        "bell": partial(_with_bell, output),
        "stderr": partial(_on_stderr, output),
    }
    choice = environment.get(BACKEND_VARIABLE)
    if not choice:
        choice = "bell" if shutil.which(_PROGRAM) is None else "desktop"
    if choice not in backends:
        raise InvalidInput(f"{BACKEND_VARIABLE} must be {', '.join(backends)}, not {choice!a}")
    return backends[choice]


def title(answer: Message) -> str:
    """Return the title of the notice for an answer."""
    if answer.type.endswith(".timed_out"):
        return "Reply ready (timed out)"
    return "Reply ready (failed)" if answer.type.endswith(".failed") else "Reply ready"


def text(answer: Message) -> list[str]:
    """Return the lines of the notice for an answer: its type, its beginning, how to see it."""
    return [
        f"{answer.type} in conversation {answer.conversation}",
        preview(answer),
        f"see it with: bus check {shlex.quote(answer.conversation)}",
    ]


def preview(answer: Message) -> str:
    """Return the first line of an answer that is not empty, cut by characters."""
    if answer.payload_error is not None:
        return f"({answer.payload_error})"
    payload = answer.payload if answer.has_payload else ""
    body = payload if isinstance(payload, str) else orjson.dumps(payload).decode()
    first = body.strip().partition("\n")[0].rstrip()
    if not first:
        return "(empty reply)"
    return first if len(first) <= PREVIEW_CHARS else first[:PREVIEW_CHARS] + "…"


def _on_desktop(output: Output, answer: Message) -> None:
    # Desktops read the text as markup; what a message says must not act there.
    body = html.escape("\n".join(map(visible, text(answer))), quote=False)
    try:
        words = [_PROGRAM, "--app-name=bus", "--", title(answer), body]
        ended = run_child(words, limit_s=_PROGRAM_TIMEOUT_S)
        if ended is not None and not ended.code:
            return
        reason = f"exit status {ended.code}" if ended else "it took too long"
        output.detail(f"{_PROGRAM} failed: {reason}")
    except OSError as error:
        output.detail(f"{_PROGRAM} failed: {error}")
    _on_stderr(output, answer)


def _with_bell(output: Output, answer: Message) -> None:
    output.bell()
    _on_stderr(output, answer)


def _on_stderr(output: Output, answer: Message) -> None:
    for line in (title(answer), *text(answer)):
        output.note(line)
