"""The hooks of coding agents: new mail is announced without polling.

A hook starts at each use of a tool, so it loads no more than it needs. Each program has its own
names of the events, and its own form of an answer.
"""

from __future__ import annotations

import os
import sys

from ...schema.directory.discovery import find_bus
from ...schema.directory.layout import user_bus
from ...schema.errors import InvalidInput
from ...schema.message.names import check_agent
from ...schema.process_table import foreign_process
from ...subscribers.inboxes.unread_count import look_in
from ..hints import AGENT_VARIABLE
from ..own_session import holder
from ..show.output import Output
from ..show.text import counted, visible
from .waiting_mail import COUNTED, PATIENCE_S, waiting_mail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from ...subscribers.inboxes.unread_count import InboxLook

# Input of another program, which may leave its pipe open: read no further than is needed.

#: How long a program may take for its input, in seconds: less than it gives a hook.
INPUT_S = 5.0

#: How much is read, in bytes.
_MAX_BYTES = 64_000_000

#: The pause that is taken for the end of a value that could go on, such as a number, in seconds.
_PAUSE_S = 0.1

#: Bytes that can end an object or a list; after these no pause is waited for.
_ENDS = (b"}", b"]")


def first_value() -> object:
    """Return the first JSON value of the standard input; an empty object where there is none.

    Raises:
        InvalidInput: it is no JSON, or not whole within 5 s.
    """
    from json import JSONDecoder, detect_encoding

    if sys.stdin is None or sys.stdin.isatty():
        return {}
    data = b""
    error: ValueError | None = None
    for data, is_open in _inputs():
        try:
            text = data.decode(detect_encoding(data), "surrogatepass").strip()
            return JSONDecoder().raw_decode(text or "{}" * (not is_open))[0]
        except ValueError as cause:  # it goes on, perhaps
            error = cause
        if not is_open:
            break
    else:
        raise InvalidInput(f"no whole description of the event came within {INPUT_S:g} s")
    raise InvalidInput(f"the program's description of the event is not JSON: {error}") from error


def all_input() -> bytes:
    """Return the whole standard input.

    Raises:
        InvalidInput: its end has not come within 5 s.
    """
    if sys.stdin is None:
        return b""
    for data, is_open in _inputs():
        if not is_open:
            return data
    raise InvalidInput(f"the end of the standard input has not come within {INPUT_S:g} s")


def _inputs() -> Iterator[tuple[bytes, bool]]:
    """Yield what was read so far whenever it may be whole, and whether there may be more.

    The time, or the room, is over when nothing follows what has not ended.
    """
    import select
    import time

    data, tried = bytearray(), 0
    until = time.monotonic() + INPUT_S
    while (left_s := until - time.monotonic()) > 0 and len(data) < _MAX_BYTES:
        if not select.select([0], [], [], min(left_s, _PAUSE_S))[0]:
            if len(data) > tried:
                tried = len(data)
                yield bytes(data), True
            continue
        try:
            chunk = os.read(0, 65536)
        except BlockingIOError:  # another process was faster
            continue
        data += chunk
        if not chunk:
            yield bytes(data), False
        elif len(data) > 1.1 * tried and chunk.rstrip().endswith(_ENDS):
            tried = len(data)  # a long one is not looked through for each part of it
            yield bytes(data), True


#: How long a session that begins waits for other writers, in seconds: without a name its agent is
#: told nothing. Programs give a hook 10 s.
_NAMING_S = 5.0


def hook(
    output: Output,
    event: str,
    program: str,
    *,
    agent: str | None = None,
    directory: str | None = None,
    user: bool = False,
    no_bodies: bool = False,
    profile: str = "default",
) -> int:
    """Answer an event in an agent, in the form of its program; print nothing when nothing waits.

    Args:
        event, program: the event, and the program.
        agent: the agent; None: the one that BUS_AGENT names.
        directory, user: the bus.
        no_bodies: says nothing more: no hook shows a body. Hooks that are set up may give it.
        profile: the tools that the agent is offered.

    Raises:
        InvalidInput: there is no such hook, or no agent.
    """
    _refuse_unknown(event, program)
    agent = _agent_named(agent)
    if directory is not None and user:
        raise InvalidInput("give --dir or --user, not both")
    payload = _event_payload()
    if payload.get("agent_id") or (event == "stop" and _has_gone_on(payload)):
        return 0  # a sub-agent has no mail of its own, and would keep it from the agent
    if event == COMPACT and (program, payload.get("trigger")) in _LOOKS:
        return 0
    bus_directory = user_bus() if user else directory if directory is not None else find_bus()
    begins = event == "start"
    with look_in(
        bus_directory,
        agent,
        COUNTED,
        wait_s=_NAMING_S if begins else PATIENCE_S,
        holder=holder(),
        joins=begins,  # with a new session the agent joins, so that broadcasts wait for it
        id=_id(payload) if begins else None,
        is_resumed=payload.get("source") == "resume",
    ) as look:
        if event == COMPACT:
            look.forget_shown()
        text = EVENTS[event](look) if event in EVENTS else None
    if event == WAIT:
        return _wait(output, program, look.agent, bus_directory)
    if event == "start":
        from .prime import instruction

        text = f"{instruction(look.agent, profile, program)}\n{text}"
    if text:
        output.json_line(ANSWERS[program][event](text))
    return 0


def _refuse_unknown(event: str, program: str) -> None:
    """Refuse an event that is not one of a program's hooks."""
    answers = ANSWERS.get(program, {})
    is_answered = event in answers or (event == COMPACT and bool(answers))
    if not is_answered and (event != WAIT or program not in WAITERS):
        choices = f"{', '.join((*EVENTS, COMPACT))} and {', '.join(ANSWERS)}"
        raise InvalidInput(f"there is no hook {event!a} of {program!a}; there are {choices}")


def _agent_named(agent: str | None) -> str:
    agent = agent or os.environ.get(AGENT_VARIABLE)
    if not agent:
        raise InvalidInput(f"no agent is named: give --agent NAME, or set {AGENT_VARIABLE}")
    check_agent(agent)
    return agent


def _wait(output: Output, program: str, agent: str, directory: str) -> int:
    """Wait beside an idle agent, and tell its program, in the form of it, that mail waits."""
    from ...wake.waking import TEXT
    from .waiting_hook import wait, waits_for

    if not waits_for(program) or not wait(agent, directory):
        return 0
    if program == "claude":  # it goes on with what a hook says on stderr with this exit code
        print(TEXT, file=sys.stderr)
        return GOES_ON
    output.json_line({"text": TEXT})
    return 0


# what to say ---------------------------------------------------------------------------------


def _at_start(look: InboxLook) -> str:
    """Return the unread mail, of which a session that begins, or was compacted, knows nothing."""
    waiting = waiting_mail(look, afresh=True)
    pid, has_bound = look.traces()
    notes = [*_who_shares(look, pid), *(_what_ended(look) if has_bound else ())]
    return "\n".join([*notes, waiting or "Nothing waits for you now."])


def _what_ended(look: InboxLook) -> list[str]:
    """Return a line about the reservations that ended with an earlier session of this name."""
    ended = look.bus().reservations.ended_with_sessions(look.agent)
    if not ended:
        return []
    count = counted(len(ended), "reservation")
    return [f"{count} of yours ended with an earlier session: bus_status names them.\n"]


def _who_shares(look: InboxLook, beating_pid: int | None) -> list[str]:
    """Return lines about others under the base name, and under the name of this session."""
    if look.session is None:
        return []
    shared = []
    if beating_pid is not None and foreign_process(beating_pid, look.session.process):
        from ...subscribers.overview.agents import outsider

        if other := outsider(look.bus(), look.session):
            shared = [f"Warning: process {other.pid} acts as {look.agent} too.\n"]
    if look.session.number == 1:
        return shared
    base, name = visible(look.session.base), visible(look.agent)
    mail = f"; mail to {base} comes to you" if look.session.claims_base else ""
    notice = f"Several sessions run as {base}. This one is {name}: act as {name} only{mail}."
    return [f"{notice}\n", *shared]


def _after_tool(look: InboxLook) -> str | None:
    """Return the mail that came since the last that was shown."""
    return waiting_mail(look, only_new=True)


def _at_stop(look: InboxLook) -> str | None:
    """Return the mail that is still to be handled."""
    waiting = waiting_mail(look)
    if waiting is None:
        return None
    return f"Before you end: handle what waits on the message bus, and acknowledge it.\n{waiting}"


#: The exit code of an action that makes the program go on; no error of ours has it.
GOES_ON = 100

#: The event of an agent that is idle, and the programs that wait for mail by a hook meanwhile.
WAIT, WAITERS = "wait", ("claude", "opencode")

#: The event that the conversation of an agent was replaced by a summary, of programs that then
#: begin no session: nothing is said, and nothing counts as shown any more.
COMPACT = "compact"

#: The programs, and their words, that only look if a summary is needed: Gemini does so
#: before each request to its model, and tells nothing when it makes one.
_LOOKS = frozenset({("gemini", "auto")})

#: The text of each event, or None, for an open look.
EVENTS: dict[str, Callable[[InboxLook], str | None]] = {
    "start": _at_start,
    "tool": _after_tool,
    "stop": _at_stop,
}


# how each program is told --------------------------------------------------------------------


def _context(event: str) -> Callable[[str], dict[str, Any]]:
    return lambda text: {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _blocked(text: str) -> dict[str, Any]:
    return {"decision": "block", "reason": text}


_LIKE_CLAUDE: dict[str, Callable[[str], dict[str, Any]]] = {
    "start": _context("SessionStart"),
    "tool": _context("PostToolUse"),
    "stop": _blocked,
}

#: How the programs want to be answered.
ANSWERS: dict[str, dict[str, Callable[[str], dict[str, Any]]]] = {
    "claude": _LIKE_CLAUDE,
    "codex": _LIKE_CLAUDE,
    "gemini": {
        "start": _context("SessionStart"),
        "tool": _context("AfterTool"),
        "stop": lambda text: {"decision": "deny", "reason": text},
    },
    "opencode": dict.fromkeys(EVENTS, lambda text: {"text": text}),
    "cursor": {
        "start": lambda text: {"additional_context": text},
        "tool": lambda text: {"additional_context": text},
        "stop": lambda text: {"followup_message": text},
    },
    # Copilot looks for it at the top in its command line, and one level down in VS Code.
    "copilot": {
        "start": lambda text: {"additionalContext": text, **_context("SessionStart")(text)},
        "tool": lambda text: {"additionalContext": text, **_context("PostToolUse")(text)},
        "stop": lambda text: {
            **_blocked(text),
            "hookSpecificOutput": {"hookEventName": "Stop", **_blocked(text)},
        },
    },
}


def _event_payload() -> Mapping[str, object]:
    """Return the program's description of the event, from standard input."""
    payload = first_value()
    return payload if isinstance(payload, dict) else {}


def _id(payload: Mapping[str, object]) -> str | None:
    """Return the id by which the program resumes this session, where it tells one."""
    id = payload.get("session_id") or payload.get("sessionId")
    return id if isinstance(id, str) else None


def _has_gone_on(payload: Mapping[str, object]) -> bool:
    """Whether this hook has made the agent go on already, or a person has ended it."""
    is_ended = payload.get("status") in ("aborted", "error")
    return bool(payload.get("stop_hook_active") or payload.get("loop_count") or is_ended)
