"""The table of all targets, and what their cases are drawn from.

A new parser gets a row: what it is given, a check that raises for what must not be, and a place.
"""

from hypothesis import strategies as st

from . import commands, damage, directory, files, library
from .command_lines import command_lines, publish_lines
from .engine import Target
from .strategies import (
    agents,
    any_json,
    any_text,
    headers,
    ids,
    json_bytes,
    lines,
    mutated,
    real_lines,
    records,
    refs,
    samples,
    times,
    types,
)

_BUS, _PUBLISH, _RESPONSE, _CONFLICT = samples(
    "bus.jsonl", "publish.jsonl", "response.json", "conflict.jsonl"
)
_REAL = b"".join(real_lines())
_LINES = [each for each in (_BUS, _PUBLISH, _CONFLICT, _REAL) if each]

_json = json_bytes(any_json) | mutated([*_BUS.splitlines(), *_PUBLISH.splitlines(), _RESPONSE])
_jsonl = lines | mutated(_LINES)

_fields = st.fixed_dictionaries(
    {},
    optional={
        "type": types | any_json,
        "payload": any_json,
        "from_agent": agents,
        "to_agent": agents,
        "id": ids | any_json,
        "in_reply_to": ids,
        "correlation_id": ids,
        "priority": st.sampled_from([0, 1, 2, 3, -1, True, "normal"]),
        "headers": headers,
        "payload_ref": refs,
        "strict": st.booleans(),
    },
)

_entries = st.lists(
    st.sampled_from(
        [
            "type=kind|note",
            "payload=body",
            "headers.*=*",
            "headers.x=y",
            "ts=when",
            "from=id",
            "to=to|alice",
            "id=ts",
            "seq=1",
            "type=",
            "=",
            "headers.=x",
            "a=b",
            "payload=payload|x",
        ]
    )
    | st.builds("{}={}".format, st.sampled_from(["type", "id", "headers.a"]) | any_text, any_text),
    max_size=3,
)

_glob = st.lists(
    st.sampled_from(["*", "**", "?", "/", "a", "b", ".py", "[ab]", "[!a]", "[", "]", "\\", "-"])
    | st.sampled_from(["*a" * 100, "?*" * 100, "**/" * 200, "[a-z]" * 50, "..", ".", "\\*", "é"]),
    max_size=12,
).map("".join)

_pattern = st.lists(st.sampled_from([*"ab.*>[]?", "task", "note", "assign"]), max_size=8).map(
    "".join
)

_words = st.lists(
    st.sampled_from(["disk", "full", "disk full", "na*", '"', "*", "NEAR(a b)", "a OR b", "x" * 99])
    | st.sampled_from(["漢字", "😀", "İ", "a-b", "a_b", "text:", "^a", "{a}"])
    | any_text,
    max_size=4,
)

_response = json_bytes(
    st.fixed_dictionaries(
        {"status": st.sampled_from(["ok", "error", "OK"]) | any_json},
        optional={
            "protocol": st.sampled_from([1, 2, 2.0, "2"]),
            "result": any_json | any_text,
            "error": any_json,
            "retry": any_json | st.booleans(),
            "events": st.lists(
                st.fixed_dictionaries(
                    {"type": types}, optional={"payload": any_json, "dedupe_key": any_json}
                )
                | any_json,
                max_size=3,
            ),
            "state_updates": any_json,
            "logs": any_json | st.lists(st.fixed_dictionaries({"level": any_text}), max_size=2),
        },
    )
)

TARGETS = [
    Target("traps", 15, directory.traps, directory.planted_traps, directory.a_scene),
    Target("json", 130, _json, library.json_text, library.nothing),
    Target("message", 110, _fields, library.message, library.a_bus),
    Target("jsonl import", 110, st.tuples(_jsonl, _entries), library.jsonl_import, library.a_bus),
    Target("field map", 60, st.tuples(_entries, records), library.field_map, library.nothing),
    Target(
        "type pattern",
        60,
        st.tuples(_pattern | any_text, types | _pattern),
        library.type_pattern,
        library.a_bus,
    ),
    Target(
        "path pattern",
        90,
        st.tuples(_glob | any_text, _glob | any_text),
        library.path_pattern,
        library.nothing,
    ),
    Target("time", 60, times, library.time, library.nothing),
    Target("name", 50, ids | types | refs | _glob, library.name, library.a_bus),
    Target("search", 50, _words, library.search, library.a_bus),
    Target(
        "git merge",
        60,
        st.tuples(mutated(_LINES, 2) | lines, mutated(_LINES, 2) | lines),
        library.git_merge,
        library.nothing,
    ),
    Target(
        "worker response",
        60,
        _response | mutated([_RESPONSE]) | _json,
        library.worker_response,
        library.nothing,
    ),
    Target("command line", 60, command_lines, commands.command, commands.forks),
    Target("publish --jsonl", 12, publish_lines, commands.command, commands.forks),
    Target("damaged files", 12, files.damages, files.damaged_files, commands.forks),
    Target("damaged bus", 5, damage.harms, damage.damaged_bus, damage.a_bus_to_copy),
    Target("git clean", 8, files.git_inputs, files.git_clean, commands.forks),
    Target("git log", 5, files.histories, files.git_log, commands.forks),
    Target("process", 3, command_lines, commands.command, commands.processes),
]
