"""The first answers of `bus mcp` come from files, and are those of the SDK's server."""

import json
from collections.abc import Iterable
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from ackbus.server.mcp.sdk_server import Protocol, ResumedStreams, serve_streams
from ackbus.server.mcp.stdio import CAPABILITIES, CLIENT, PROTOCOL, Front, path_of_answers
from ackbus.server.mcp.tools.profiles import DEFAULT, PROFILES

from ..sizes import size
from .stored_answers import (
    AFTER_HANDSHAKE,
    INITIALIZED,
    LISTS,
    WITHOUT_HANDSHAKE,
    WRITE,
    Json,
    Wires,
    after_handshake,
    answers_of_sdk,
    hello,
    line_of,
    no_session,
    refused,
    stored_answers,
)

# the files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_stored_answers_are_those_of_the_sdks_server(profile: str) -> None:
    with open(path_of_answers(profile), "rb") as file:
        assert json.load(file) == stored_answers(profile), f"a tool has changed: run `{WRITE}`"


@pytest.mark.parametrize("profile", PROFILES)
def test_all_versions_with_a_handshake_have_the_same_answers(profile: str) -> None:
    first, *others = [after_handshake(profile, each) for each in HANDSHAKE_PROTOCOL_VERSIONS]
    assert others == [first] * len(others)


# lines ----------------------------------------------------------------------------------------

CLIENTS: list[list[Json]] = [
    # As programs open: Claude Code, opencode, Codex, Gemini CLI, and Copilot without a handshake.
    [
        {
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"roots": {}, "elicitation": {}},
                "clientInfo": {
                    "name": "claude-code",
                    "title": "Claude Code",
                    "version": "2.1.197",
                    "description": "Anthropic's agentic coding tool",
                    "websiteUrl": "https://claude.com/claude-code",
                },
            },
            "jsonrpc": "2.0",
            "id": 0,
        },
        {"method": "notifications/initialized", "jsonrpc": "2.0"},
        {"method": "tools/list", "jsonrpc": "2.0", "id": 1},
    ],
    [
        {
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {
                    "experimental": {"codex/auth-change": {}},
                    "elicitation": {"form": {}, "url": {}},
                },
                "clientInfo": {"name": "codex-mcp-client", "title": "Codex", "version": "0.169.0"},
            },
        },
        INITIALIZED,
        {"id": 1, "method": "tools/list", "params": {"_meta": {"progressToken": 0}}},
    ],
    [
        {
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"roots": {"listChanged": True}},
                "clientInfo": {"name": "gemini-cli-mcp-client", "version": "0.61.0"},
            },
            "id": 0,
        },
        INITIALIZED,
        {"method": "tools/list", "params": {}, "id": 1},
        {"method": "resources/list", "params": {}, "id": 2},
    ],
    [
        {
            "id": id,
            "method": method,
            "params": {
                "_meta": {
                    PROTOCOL: "2026-07-28",
                    CLIENT: {"name": "copilot-cli", "version": "1.0.102"},
                    CAPABILITIES: {"sampling": {}, "elicitation": {"form": {}, "url": {}}},
                }
                | ({"progressToken": 0} if id else {}),
            },
        }
        for id, method in enumerate(["server/discover", "tools/list"])
    ],
]


def front_on(lines: Iterable[bytes]) -> tuple[Front, list[Json], list[bytes]]:
    """A front, its answers to lines until one is for the SDK, and that line and all after it."""
    front, answers, left = Front(DEFAULT), [], list(lines)
    while left and (answer := front.answer(left[0].removesuffix(b"\n"))) is not None:
        if answer:
            answers.append(json.loads(answer))
        del left[0]
    return front, answers, left


@pytest.mark.parametrize("messages", CLIENTS, ids=["claude", "codex", "gemini", "copilot"])
def test_real_programs_have_all_lists_without_the_sdk(messages: list[Json]) -> None:
    lines = [*map(line_of, messages)]
    _, answers, left = front_on(lines)
    assert left == []
    assert answers == answers_of_sdk(DEFAULT, lines)
    assert any("tools" in answer["result"] for answer in answers)


# any lines, against the SDK -------------------------------------------------------------------

VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1.5, "", "x", [], {}, {"x": 1}, {"listChanged": True}]
)
IDS: st.SearchStrategy[Any] = st.sampled_from(
    [0, 1, -1, 10**30, "", "a", "ü\n", None, True, 1.0, [], {}]
)
NAMES = st.sampled_from(["name", "version", "title", "description", "websiteUrl", "icons", "x"])
ABLE = st.sampled_from(
    ["roots", "sampling", "elicitation", "experimental", "extensions", "tasks", "x"]
)
FLAGS = st.dictionaries(
    st.sampled_from(["listChanged", "form", "tools", "context", "requests", "list", "x"]),
    VALUES,
    max_size=2,
)
CAPABLE = st.one_of(st.dictionaries(ABLE, st.one_of(FLAGS, VALUES), max_size=2), VALUES)
ABOUT = st.one_of(
    st.dictionaries(NAMES, st.one_of(st.text(max_size=3), VALUES), max_size=2).map(
        lambda more: {"name": "n", "version": "1"} | more
    ),
    VALUES,
)
VERSIONS = st.sampled_from([*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS, "1", 1, None])
METHODS = st.sampled_from(
    [*AFTER_HANDSHAKE, *WITHOUT_HANDSHAKE, "initialize", "prompts/list", "nothing", 5]
)
META = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            "progressToken": VALUES,
            PROTOCOL: VERSIONS,
            CAPABILITIES: CAPABLE,
            CLIENT: ABOUT,
        },
    ),
    st.fixed_dictionaries(
        {PROTOCOL: st.just("2026-07-28"), CAPABILITIES: CAPABLE}, optional={CLIENT: ABOUT}
    ),
    VALUES,
)
PARAMS = st.one_of(st.fixed_dictionaries({}, optional={"_meta": META, "cursor": VALUES}), VALUES)
HELLOS = st.builds(
    lambda id, version, able, about, more: {
        "id": id,
        "method": "initialize",
        "params": {"protocolVersion": version, "capabilities": able, "clientInfo": about} | more,
    },
    st.sampled_from([0, "a"]),
    VERSIONS,
    CAPABLE,
    ABOUT,
    st.sampled_from([{}, {}, {"_meta": {}}, {"x": 1}]),
)
MESSAGES = st.one_of(
    HELLOS,
    st.sampled_from([hello("2025-06-18"), hello("2025-06-18"), INITIALIZED]),
    st.fixed_dictionaries({"id": IDS, "method": METHODS}, optional={"params": PARAMS}),
    st.fixed_dictionaries(
        {"method": st.sampled_from(["notifications/initialized", "notifications/x", "ping"])},
        optional={"params": PARAMS},
    ),
    st.fixed_dictionaries(
        {}, optional={"id": IDS, "method": METHODS, "result": VALUES, "x": VALUES}
    ),
)
ODD = [
    *(b"", b"{", b"[]", b"null", b"\xff", b"\xef\xbb\xbf{}", b'{"jsonrpc":"2.0"}'),
    b"[" + line_of(hello("2025-06-18")).strip() + b"]",
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,\r"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}',
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r',
    b' {"jsonrpc" : "2.0" , "id":1,"method":"ping"} ',
]
ODD_LINES = st.sampled_from(ODD).map(lambda line: line + b"\n")

ENVELOPE: Json = {"_meta": {PROTOCOL: "2026-07-28", CAPABILITIES: {"roots": {}}}}


def conversations(
    opening: list[Json], methods: tuple[str, ...], params: list[Json]
) -> st.SearchStrategy[list[bytes]]:
    """An opening, and lines most of which fit it."""
    fitting = st.builds(
        lambda id, method, params: {"id": id, "method": method, "params": params},
        st.integers(1, 9),
        st.sampled_from(methods),
        st.sampled_from(params),
    )
    odd = st.one_of(MESSAGES.map(line_of), ODD_LINES)
    line = st.integers(0, 3).flatmap(
        lambda one_in_four: fitting.map(line_of) if one_in_four else odd
    )
    return st.lists(line, max_size=6).map(lambda lines: [*map(line_of, opening), *lines])


WITH_HANDSHAKE = (AFTER_HANDSHAKE, [{}, {"_meta": {"progressToken": 1}}])
LINES = st.one_of(
    conversations([hello("2024-11-05")], *WITH_HANDSHAKE),
    conversations([hello("2025-11-25"), INITIALIZED], *WITH_HANDSHAKE),
    conversations([], WITHOUT_HANDSHAKE, [ENVELOPE]),
    conversations([], AFTER_HANDSHAKE, [{}]),
)


@given(lines=LINES)
@settings(max_examples=size(sample=20, whole=3000), deadline=None)
def test_front_answers_as_the_sdk_or_not_at_all(lines: list[bytes]) -> None:
    _, answers, left = front_on(lines)
    assert answers == answers_of_sdk(DEFAULT, lines[: len(lines) - len(left)])


@pytest.mark.slow
@given(lines=LINES)
@settings(max_examples=size(sample=20, whole=3000), deadline=None)
def test_connection_that_the_front_opened_goes_on_as_if_the_sdk_had(lines: list[bytes]) -> None:
    """Nothing is lost, nothing is answered twice, and the protocol stays the one it was."""
    front, answers, left = front_on(lines)
    answers += answers_after(front, left)
    refusals, expected = refused(DEFAULT, lines)
    assert [each for each in answers if each in refusals] == refusals
    assert [each for each in answers if each not in refusals] == expected


#: Whole lines that are no messages, and the code and id of the answer.
NO_MESSAGES: list[tuple[bytes, int, object]] = [
    *((text, PARSE_ERROR, None) for text in (b"{", b"\xff", b"\xef\xbb\xbf{}", b"[" * 500)),
    (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', PARSE_ERROR, "\ud800"),
    (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"\\ud83d"}}', PARSE_ERROR, 5),
    (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"\xff"}}', PARSE_ERROR, 5),
    *((text, INVALID_REQUEST, None) for text in (b"[]", b"null", b"5", b'{"jsonrpc":"2.0"}')),
    (b"[" + line_of(hello("2025-06-18")).strip() + b"]", INVALID_REQUEST, None),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID_REQUEST, 1),
    (b'{"jsonrpc":"2.0","id":"a","method":"ping","params":[]}', INVALID_REQUEST, "a"),
    *(
        (b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % id, INVALID_REQUEST, None)
        for id in (b"null", b"1.5", b"true", b"{}", b"[]")
    ),
]


@pytest.mark.parametrize(("line", "code", "id"), NO_MESSAGES)
def test_line_that_is_no_message_is_answered(line: bytes, code: int, id: object) -> None:
    """Its client waits: it may be a request, as a program wrote it that cut an emoji in two."""
    lines = [line_of(hello("2025-06-18")), line_of(INITIALIZED), line + b"\n"]
    front, _, left = front_on(lines)
    assert left
    (answer,) = answers_after(front, left)
    assert (answer["id"], answer["error"]["code"]) == (id, code)
    assert answer["error"]["message"].endswith("Nothing was done.")


@pytest.mark.parametrize(
    "line", [b"", b"  \r", b'{"jsonrpc":"2.0","id":{},"result":1}', b'{"id":1,"error":5}']
)
def test_blank_lines_and_broken_answers_are_not_answered(line: bytes) -> None:
    """Or two that answer errors by errors would never end."""
    lines = [line_of(hello("2025-06-18")), line + b"\n", line_of({"id": 1, "method": "ping"})]
    front, answers, left = front_on(lines)
    assert [each["id"] for each in [*answers, *answers_after(front, left)]] == [0, 1]


def test_opening_with_too_many_brackets_is_for_the_sdk() -> None:
    """Its parser refuses what Python's reads."""
    deep = "{" + '"x":{' * 300 + "}" * 301
    line = line_of(hello("2025-06-18")).replace(b'"capabilities": {}', b'"capabilities": %b')
    line = line % f'{{"extensions": {deep}}}'.encode()
    assert front_on([line])[2] == [line]
    assert answers_of_sdk(DEFAULT, [line]) == []


def answers_after(front: Front, lines: Iterable[bytes]) -> list[Json]:
    wires = Wires(lines)

    async def go_on() -> None:
        protocol = Protocol(no_session, lambda context: DEFAULT)
        await serve_streams(protocol, ResumedStreams(front, wires.as_they_came(), wires))

    anyio.run(go_on)
    return [json.loads(each) for each in wires.written]


@pytest.mark.parametrize("method", LISTS)
def test_list_before_the_handshake_is_refused_as_ever(method: str) -> None:
    (line,) = lines = [line_of({"id": 1, "method": method})]
    assert front_on(lines)[2] == lines
    assert "error" in answers_of_sdk(DEFAULT, [line])[0]
