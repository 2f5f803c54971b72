"""Files of megabytes, as programs keep their histories in: setup passes over them a few times."""

import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ackbus.schema.errors import AckbusError
from ackbus.setup import abridging, json_edits, text_edits
from ackbus.setup.files import MOST_PROJECT_BYTES, diff_of

from ..sizes import sampled, size
from .test_setup_files import JSON_FILES, TOML_FILES, apply, installation, root

__all__ = ["root"]

#: Files of programs, each with the scope in which setup changes it.
PLACES = [
    "claude:local:home/.claude.json",
    "claude:project:project/.claude/settings.json",
    "codex:project:project/.codex/config.toml",
    "codex:project:project/.codex/hooks.json",
    "gemini:project:project/.gemini/settings.json",
    "cursor:project:project/.cursor/mcp.json",
    "copilot:project:project/.vscode/mcp.json",
    "opencode:project:project/opencode.json",
    "windsurf:project:home/.codeium/windsurf/mcp_config.json",
]


def files_of(texts: dict[str, tuple[str, str]]) -> list[tuple[str, str]]:
    """Each place with each name of a text that can stand there."""
    return [
        (place, name) for name, (end, _) in texts.items() for place in PLACES if place.endswith(end)
    ]


#: How often a text may be passed over by one change of it, at most: for each scope and each program
#: that may be set up in the same file, once to see what is valid, and once to see what is ours.
PASSES = 6

#: The share of a text that TOML's parser may read, which takes seconds for a megabyte.
PARSED = 0.05


def json_file(indent: int | None) -> str:
    """A configuration with a history, as Claude Code has it, and with many plain members."""
    history = [{"display": "some text \u00e9// " * 8, "pasted": {}, "at": 1.5}] * 20
    projects = {f"/home/me/{number}": {"history": history} for number in range(50)}
    plain = {f"tip {number}": number for number in range(2_000)}
    servers = {f"server {number}": {"command": "x"} for number in range(500)}
    return json.dumps({"projects": projects, **plain, "mcpServers": servers}, indent=indent)


def with_comments(text: str) -> str:
    """The same JSON with a comment on each line, and a comma after the last server."""
    lines = text.replace("}\n  }\n}", "},\n  },\n}").split("\n")
    return "\n".join(f"{line} // a note" for line in lines)


#: The usual forms of TOML, many times.
TOML_TABLES = "".join(
    f'''[projects."/home/me/{number}"]
trust_level = "trusted" # "yes"
since = 2026-11-{number % 28 + 1:02}T10:00:00Z
seen = [1, -2.5e3, [true, {{ a.b = 'x', c = "" }}], ] # [mcp_servers.ackbus]

[mcp_servers.other-{number}]
command = "x\\u00e9"
notes = """
[mcp_servers.ackbus] ""
"""

[[lists]]
'''
    for number in range(600)
)

LONG_FILES = {
    "JSON on one line": (".json", json_file(None)),
    "JSON": (".json", json_file(2)),
    "JSON with comments": (".json", with_comments(json_file(2))),
    "Windows lines": (".json", with_comments(json_file(4)).replace("\n", "\r\n")),
    "TOML": (".toml", "".join(f"key-{each} = {each}\n" for each in range(4_000)) + TOML_TABLES),
    "TOML, Windows lines": (".toml", TOML_TABLES.replace("\n", "\r\n")),
}


class Reading:
    """Counts the characters that are read, by the decoder of JSON and by the parser of TOML."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = self.parsed = 0
        self._decode, self._loads = json_edits._decode, tomllib.loads
        self._blanked, self._children = json_edits._blanked, json_edits._Parser._children
        monkeypatch.setattr(json_edits, "_decode", self._counting_pass)
        monkeypatch.setattr(json_edits, "_blanked", self._counting_blanks)
        monkeypatch.setattr(text_edits.tomllib, "loads", self._counting_loads)
        for cached in (json_edits.parse, abridging.abridged_json, abridging.abridged_toml):
            cached.cache_clear()

    def _counting_pass(self, text: str, at: int) -> tuple[Any, int]:
        value, end = self._decode(text, at)
        self.passed += end - at
        return value, end

    def _counting_blanks(self, text: str) -> str:
        self.passed += len(text)
        return self._blanked(text)

    def _counting_loads(self, text: str) -> dict[str, Any]:
        self.parsed += len(text)
        return self._loads(text)


@pytest.mark.parametrize(("name", "form"), files_of(LONG_FILES))
def test_long_file_is_passed_over_a_few_times(
    name: str, form: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 32, item 12: `--remove` of 6 MB took 38 s; the work is counted, not the time."""
    program, scope, place = name.split(":")
    path = root.parent / place
    path.parent.mkdir(parents=True, exist_ok=True)
    before = LONG_FILES[form][1]
    path.write_bytes(before.encode())
    for change in ("additions", "additions", "removals"):
        reading = Reading(monkeypatch)
        apply(getattr(installation(program, root, scope=scope), change)())
        assert reading.passed <= PASSES * len(before), change
        assert reading.parsed <= PARSED * len(before), change
    assert path.read_bytes() == before.encode()


SHORT_FILES = (
    {f"JSON, {name}": (".json", text) for name, text in JSON_FILES.items()}
    | {f"TOML, {name}": (".toml", text) for name, text in TOML_FILES.items()}
    | {
        "TOML, what is ours in several places": (
            ".toml",
            "a = 1\n\n[x]\n[mcp_servers.y]\n# n\n[mcp_servers.ackbus]\ncommand = '/a/bus'\n"
            "args = ['mcp', '--agent', 'a']\n\n# z\n[z]\n[mcp_servers.ackbus.env]\nA = '1'\n",
        ),
        "JSON, mixed lines": (
            ".json",
            '{"a": [1,\r\n      2,\n   3], "b": {\n}, "mcpServers": {"ackbus": {\n"command":'
            ' "/a/bus", "args": ["mcp", "--agent", "a"]}, "x":\n {}}, "c": {"d": [\r\n ]}}',
        ),
    }
)


@pytest.mark.parametrize(("name", "form"), sampled(files_of(SHORT_FILES), every=3))
def test_abridged_text_is_changed_as_the_whole_one(
    name: str, form: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 32, item 12: whichever passages are left out, the result is the same to the byte."""
    program, scope, place = name.split(":")
    path = root.parent / place
    path.parent.mkdir(parents=True, exist_ok=True)
    results = []
    for shortest in (1, 10**9):
        monkeypatch.setattr(abridging, "_SHORTEST", shortest)
        Reading(monkeypatch)
        path.write_bytes(SHORT_FILES[form][1].encode())
        texts = []
        for agent, change in (("me", "additions"), ("you", "additions"), ("you", "removals")):
            try:
                apply(getattr(installation(program, root, scope=scope, agent=agent), change)())
                texts.append(path.read_bytes() if path.exists() else None)
            except AckbusError as error:
                texts.append(str(error).encode())
        results.append(texts)
        monkeypatch.undo()
        monkeypatch.setenv("HOME", str(root.parent / "home"))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "statement",
    [
        *('a = "\\ud800"', 'a = "\\x41"', "a = 01", "a = 1__0", "a = 1.", "a = .5", "a = 1e"),
        *("a = 2026-02-30", "a = 2026-13-01", "a = 24:00:00", "a = True", "a = [1 2]", "a = [,]"),
        *("a = {b = 1,}", "a = {b = 1\n}", "a = {,}", "a = 'x\ny'", 'a = "x', "a == 1", "a", "= 1"),
        *(
            'a = """x""""""',
            "a = 1 b = 2",
            "[a",
            "[a]]",
            "[[a]",
            "[a] b = 1",
            "[]",
            "[a..b]",
            "a. = 1",
        ),
        *('a = "\x07"', "# \x07", "a = 1\rb = 2", 'a = ""x"', "a = ''x'", "[a.b.]", "a = nul"),
    ],
)
def test_statement_that_is_not_valid_is_not_passed_over(statement: str) -> None:
    """Issue 32, item 12: TOML that no parser has read is not taken for valid."""
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(f"{statement}\n")
    usual = "".join(f"key-{number} = 'x'\n" for number in range(1_000))
    for text in (f"{usual}{statement}\n", f"[x]\n{usual}{statement}\n[y]\n{usual}"):
        abridged = abridging.abridged_toml(text, "mcp_servers")
        assert abridged.passages
        with pytest.raises(tomllib.TOMLDecodeError):
            tomllib.loads(abridged.text)


#: Statements in the usual forms, and near them.
STATEMENTS = [
    *('a.b = "x\\u00e9\\ud83d"', "a = 'x'", 'a = """x\n"" y"""', "a = '''x\n'' y\\'''", "# note"),
    *("a = 2026-11-30T10:00:00Z", "a = 1979-05-27 07:32:00.5-08:00", "a = 07:00:00", "a = true"),
    *("a = 1_000.5_0E+1_0", "a = +0", "a = 0x1f", "a = inf", '[x."y z"]', "[[x.y]]", ""),
    *("a = [1, -2.5e3, [true, { a.b = 'x', c = \"\" }], ] # note", "[mcp_servers.other]"),
    '"a b"."c" = {x = 1, y = [1,\n2 # n\n]}',
]

#: What is put into them.
SIGNS = "\"'\\#=[]{},.\n\r\t 0123456789-+_:TZteuEabx\x07\x7f\u00e9"


def test_nothing_is_passed_over_that_the_parser_refuses() -> None:
    """Issue 32, item 12: statements that were changed by chance; only a name may be there twice."""
    random, passed = Random(32), 0
    for _ in range(size(sample=10_000, whole=300_000)):
        text = random.choice(STATEMENTS)
        for _ in range(random.randint(0, 3)):
            at, other = random.randint(0, len(text)), random.choice(STATEMENTS)
            begin = random.randint(0, len(other))
            put = random.choice(["", "", random.choice(SIGNS), other[begin : begin + 5]])
            text = text[:at] + put + text[at + random.randint(0, 2) :]
        for run in abridging._runs("mcp_servers"):
            if match := run.match(f"{text}\n"):
                passed += 1
                with suppress_twice():
                    tomllib.loads(match[0])
    assert passed > 1_000


@contextmanager
def suppress_twice() -> Iterator[None]:
    """Suppress what the parser says of a name that is there twice."""
    try:
        yield
    except tomllib.TOMLDecodeError as error:
        if not re.search("overwrite|twice|mutate|Duplicate|namespace", str(error)):
            raise


#: Our server, as a stranger may have written it: its values differ, and one has a text in it.
OURS = """[mcp_servers.ackbus]
command = "/elsewhere/bus"
args = ["mcp", "--agent", "x", "--dir", "%s"]
"""

#: How long the texts are. To read them takes a tenth of a second; where the time for a part grew
#: with the square of its length, it took minutes or hours.
LONG = size(sample=60_000, whole=500_000)

DEEP = ".".join(["a"] * (LONG // 2))

#: Texts in the file of a project that a stranger may have written.
STRANGE = {
    "quotes in a string without an end": 'a = "' + '\\"' * (LONG // 2),
    "strings without an end": '"""a\n' * (LONG // 5),
    "other strings without an end": "'''a\n" * (LONG // 5),
    "deep header": f"[{DEEP}]\n",
    "deep key": f"{DEEP} = 1\n",
    "deep key in a table": f"x = {{{DEEP} = 1}}\n",
    "deep key of strings": DEEP.replace("a", '"\\""') + " = 1\n",
    "deep header of our table": f'["mcp_servers".{DEEP}]\n',
    "deep list": "x = " + "[" * LONG,
    "deep tables": "x = " + "{a=" * (LONG // 3),
    "long number": "x = " + "9" * LONG,
    "one more byte than a file has": "#" * (MOST_PROJECT_BYTES + 1),
    "no text": "\0" * LONG,
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_text_in_a_project_is_read_once_or_refused(name: str, root: Path) -> None:
    setup = installation("codex", root)
    path = Path(setup.files()[0].path)
    path.parent.mkdir()
    path.write_text(STRANGE[name])
    with suppress(AckbusError):
        setup.is_set_up()
    setup.as_it_stands()
    with suppress(AckbusError):
        setup.removals()
    with pytest.raises(AckbusError, match=f"^{path}[^\\n]*$"):
        setup.additions()
    assert path.read_text() == STRANGE[name]


@pytest.mark.parametrize(
    "value", ["'/elsewhere/bus'", '"""/elsewhere/bus"""', "'''/elsewhere/bus'''"]
)
@pytest.mark.parametrize("rest", ["", " # ours", " # ]"])
def test_value_of_our_server_is_replaced_in_its_place(value: str, rest: str, root: Path) -> None:
    setup = installation("codex", root)
    path = Path(setup.files()[0].path)
    args = '[\n  "mcp", # first\n  "--agent", "me", "--dir", "]"\n]'
    path.parent.mkdir()
    path.write_text(f"[mcp_servers.ackbus]\ncommand = {value}{rest}\nargs = {args}{rest}\n")
    apply(setup.additions())
    lines = path.read_text().splitlines()
    assert lines[1] == f'command = "{setup.bus}"{rest}'
    assert lines[2].endswith(f"]{rest}")
    assert len(lines) == 3


def test_diff_of_a_long_text_has_the_numbers_of_its_lines() -> None:
    lines = [str(number) for number in range(100_000)]
    before = "\n".join(lines)
    lines[70_000:70_001] = ["new", "newer"]
    assert diff_of(before, "\n".join(lines), "a", "b") == [
        "--- a",
        "+++ b",
        "@@ -69998,7 +69998,8 @@",
        *(f" {number}" for number in (69_997, 69_998, 69_999)),
        "-70000",
        "+new",
        "+newer",
        *(f" {number}" for number in (70_001, 70_002, 70_003)),
    ]


@pytest.mark.parametrize(
    ("before", "after"), [("", "a\n"), ("a\n", ""), ("a\na\n", "a\na\na\n"), ("a\nb", "b\na")]
)
def test_diff_of_short_texts_is_the_usual_one(before: str, after: str) -> None:
    import difflib

    usual = difflib.unified_diff(before.splitlines(), after.splitlines(), "a", "b", lineterm="")
    assert diff_of(before, after, "a", "b") == [*usual]


def test_removal_from_a_text_that_is_not_understood_names_the_file(root: Path) -> None:
    setup = installation("codex", root)
    path = Path(setup.files()[0].path)
    path.parent.mkdir()
    path.write_text("a = [")
    with pytest.raises(AckbusError, match=f"^{path}: no valid TOML"):
        setup.removals()
