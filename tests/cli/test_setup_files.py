"""Setting up agents' programs: configurations that people keep stay theirs, to the byte."""

import json
import os
import stat
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus
from ackbus.schema.errors import AckbusError, InvalidInput, Refused
from ackbus.setup import installation as installing
from ackbus.setup import record
from ackbus.setup.checking import check
from ackbus.setup.installation import Installation
from ackbus.setup.programs import PROGRAMS, Scope

from ..sizes import case

BUS = "/opt/bus tools/bin/bus"

#: JSON as it is met with; none has an entry of ours.
JSON_FILES = {
    "nothing in it": "",
    "an empty object": "{}",
    "an empty object and a line": "{}\n",
    "an empty object on two lines": "{\n}\n",
    "another server": '{\n  "mcpServers": {\n    "x": {"command": "x"}\n  }\n}\n',
    "empty containers": '{\n  "mcpServers": {},\n  "hooks": {"Stop": [ ], "stop": []}\n}\n',
    "an empty container": '{\n  "hooks": {}\n}\n',
    "one line": '{"theme": "dark", "mcpServers": {"x": {"command": "x", "args": []}}}',
    "one line without spaces": '{"a":1,"servers":{"x":{}},"mcp":{"y":{"type":"remote"}}}\n',
    "tabs": '{\n\t"mcpServers": {\n\t\t"x": {\n\t\t\t"command": "x"\n\t\t}\n\t}\n}',
    "four columns": '{\n    "a": 1, "b": 2,\n    "hooks": { "Stop": [\n    ] }\n}\n',
    "Windows lines": '{\r\n  "mcpServers": {\r\n    "x": {}\r\n  },\r\n  "z": [1,\r\n 2]\r\n}\r\n',
    "comments": (
        '// first\n{\n  /* a */ "mcpServers": { // the servers\n    "x": {} // x, "y" }\n'
        '    // last\n  }, // after\n  "hooks": {\n    "Stop": [\n      {"hooks": []} // h\n    ]\n'
        "  } /* end */\n  // bye\n}\n// after all\n"
    ),
    "trailing commas": '{\n  "mcp": {\n    "x": {}, // x\n  },\n  "l": [1, 2,],\n}\n',
    "strings that look like JSON": '{\n  "a{[\\"": "// \\u00e9 }],",\n  "b\\\\": ""\n}\n',
    "no ASCII": '{\n  "grüße": "你好 \U0001f68c",\n  "mcpServers": {"é": {}}\n}\n',
    "a byte order mark": '\ufeff{"a": 1}\r\n',
    "other hooks": (
        '{\n  "hooks": {\n    "Stop": [\n      {\n        "hooks": [\n'
        '          {"type": "command", "command": "say done"}\n        ]\n      }\n    ],\n'
        '    "stop": [{"command": "true"}],\n    "PostToolUse": []\n  },\n  "version": 1\n}\n'
    ),
}

TOML_FILES = {
    "nothing in it": "",
    "a byte order mark": "\ufeffa = 1\n",
    "comments": '# mine\na = "o"  # b\n\n[mcp_servers.x]\nc = "x" # [mcp_servers.ackbus]\n',
    "no end of line": "[a]\nb = 1",
    "empty lines at the end": "a = 1\n\n\n",
    "Windows lines": 'a = 1\r\n[mcp_servers.x]\r\ncommand = "x"\r\n',
    "quoted names": '["a b"]\nx = 1\n["mcp_servers".y]\ncommand = "y"\n[\'z\'."mcp_servers"]\n',
    "a text of lines": 'a = """\n[mcp_servers.y]\n"""\n',
}

MARKDOWN_FILES = {
    "nothing in it": "",
    "a heading": "# Rules\n\n- be kind\n",
    "no end of line": "be kind",
    "Windows lines": "# Rules\r\n\r\n- be kind\r\n",
}

JSON_PROGRAMS = [name for name in PROGRAMS if name != "codex"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project; the home directory is beside it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    path = tmp_path / "project"
    path.mkdir()
    return path


def installation(name: str, root: Path, **changes: Any) -> Installation:
    values = {"agent": "me", "bus": BUS, "options": ("--dir", "/a b/.worker-state")} | changes
    return Installation(name, root=str(root), **values)


def apply(changes: list[Any]) -> list[str]:
    for change in changes:
        change.apply()
    return [change.path for change in changes]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "ackbus/setup" not in str(path)  # records, and copies
    }


def commented(text: str) -> Any:
    """The value of JSON that may have comments, read by other means than ours."""
    text = text.removeprefix("\ufeff")
    lines = ("".join(_without_comments(text))).replace(",]", "]")
    return json.loads(lines)


def _without_comments(text: str) -> Iterator[str]:
    """Characters outside of comments, without commas before a closing bracket; strings are kept."""
    at, kept = 0, ""
    while at < len(text):
        if text[at] == '"':
            end = at + 1
            while text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            kept += text[at : end + 1]
            at = end + 1
        elif text.startswith("//", at):
            at = min(x for x in (text.find("\n", at), len(text)) if x >= 0)
        elif text.startswith("/*", at):
            at = text.index("*/", at) + 2
        else:
            if text[at] in "]}" and kept.rstrip().endswith(","):
                kept = kept.rstrip()[:-1]
            kept += text[at]
            at += 1
    yield kept


def without_ours(value: Any) -> Any:
    """A configuration without what is ours, and without what is empty."""
    if isinstance(value, dict):
        inner = {key: without_ours(each) for key, each in value.items() if "ackbus" not in key}
        return {key: each for key, each in inner.items() if each not in ({}, [])}
    if isinstance(value, list):
        kept = [without_ours(each) for each in value if BUS not in json.dumps(each)]
        return [each for each in kept if each not in ({}, [])]
    return value


@pytest.mark.slow
@pytest.mark.parametrize("text", JSON_FILES.values(), ids=list(JSON_FILES))
@pytest.mark.parametrize("name", JSON_PROGRAMS)
def test_json_is_merged_once_and_given_back(name: str, text: str, root: Path) -> None:
    """Issue 7, item 7: twice in a row, and removed again."""
    setup = installation(name, root)
    files = [Path(file.path) for file in setup.files() if file.is_json]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    before = contents(root.parent)
    assert set(map(str, files)) < {*apply(setup.additions()), ""}
    for file in files:
        now = commented(file.read_bytes().decode())
        assert without_ours(now) == without_ours(commented(text) if text else {}) | (
            {"version": 1} if "version" in now else {}
        )
        assert BUS in json.dumps(now)
    installed = contents(root.parent)
    assert apply(setup.additions()) == []
    assert contents(root.parent) == installed
    apply(setup.removals())
    assert contents(root.parent) == before
    assert apply(setup.removals()) == []


@pytest.mark.parametrize("text", TOML_FILES.values(), ids=list(TOML_FILES))
def test_toml_is_merged_once_and_given_back(text: str, root: Path) -> None:
    """Issue 7, item 7."""
    setup = installation("codex", root)
    path = root / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    apply(setup.additions())
    now = tomllib.loads(path.read_bytes().decode().removeprefix("\ufeff"))
    words = ["mcp", "--agent", "me", "--dir", "/a b/.worker-state"]
    assert now["mcp_servers"].pop("ackbus") == {"command": BUS, "args": words}
    assert {key: value for key, value in now.items() if value} == tomllib.loads(
        text.lstrip("\ufeff")
    )
    assert apply(setup.additions()) == []
    apply(setup.removals())
    assert path.read_bytes() == text.encode()


@pytest.mark.parametrize("text", MARKDOWN_FILES.values(), ids=list(MARKDOWN_FILES))
def test_pointer_is_a_marked_section(text: str, root: Path) -> None:
    path = root / "AGENTS.md"
    path.write_bytes(text.encode())
    setup = installation("opencode", root)
    apply(setup.additions())
    now = path.read_bytes().decode()
    assert now.startswith(text)
    assert now.count("<!-- ackbus:begin -->") == now.count("<!-- ackbus:end -->") == 1
    assert apply(setup.additions()) == []
    path.write_bytes((now.rstrip("\r\n") + "\nmore\n").encode())
    apply(setup.removals())
    assert path.read_text() in (
        text + "more\n",
        text.replace("\r\n", "\n") + "more\n",
        text + "\nmore\n",
    )


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("is_global", [False, True])
def test_new_files_are_made_and_removed(name: str, is_global: bool, root: Path) -> None:
    """Nothing is left, not even a folder that is empty now, but for the folder of all programs."""
    home = root.parent / "home"
    setup = installation(
        name, home if is_global else root, scope="global" if is_global else "project", options=()
    )
    umask = os.umask(0o027)
    made = apply(setup.additions())
    os.umask(umask)
    assert made
    for path in made:  # a project's are for all who work on it, a home's for its owner
        is_of_home = is_global or Path(path).is_relative_to(home)
        assert stat.S_IMODE(os.stat(path).st_mode) == (0o600 if is_of_home else 0o640)
    apply(setup.removals())
    assert contents(root.parent) == {}
    left = [path for path in Path(setup.root).rglob("*") if "ackbus/setup" not in str(path)]
    assert {path.name for path in left} <= {".config", "ackbus"}


#: The variable that moves what is a person's, and the files that are there then.
MOVED = [
    ("claude", "CLAUDE_CONFIG_DIR", [".claude.json", "settings.json"]),
    ("codex", "CODEX_HOME", ["config.toml", "hooks.json"]),
    ("gemini", "GEMINI_CLI_HOME", [".gemini/settings.json"]),
    ("opencode", "XDG_CONFIG_HOME", ["opencode/opencode.json", "opencode/plugins/ackbus.js"]),
    ("copilot", "COPILOT_HOME", ["hooks/ackbus.json", "mcp-config.json"]),
]


@pytest.mark.parametrize(("name", "variable", "files"), MOVED)
def test_variable_of_the_program_moves_what_is_a_persons(
    name: str, variable: str, files: list[str], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = root.parent / "moved"
    monkeypatch.setenv(variable, str(moved))
    apply(installation(name, root.parent / "home", scope="global").additions())
    assert sorted(contents(moved)) == files
    assert apply(installation(name, root).additions())
    assert sorted(contents(moved)) == files


def test_windsurfs_second_project_leaves_the_first_alone(root: Path) -> None:
    """Issue 19, item 11: its one file has the servers of all projects; names may be alike."""
    home = root.parent / "home"
    path = home / ".codeium" / "windsurf" / "mcp_config.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"mcpServers": {"ackbus-project": {"command": "mine"}}}')
    projects = [root, root.parent / "other" / "Pro ject", root.parent / "more" / "project"]
    before: list[str] = []
    for project in projects:
        project.mkdir(parents=True, exist_ok=True)
        before.append(path.read_text())
        setup = installation("windsurf", project, options=("--dir", f"{project}/.worker-state"))
        apply(setup.additions())
        assert setup.additions() == []
        assert setup.as_it_stands() == setup
    servers = json.loads(path.read_text())["mcpServers"]
    assert [*servers] == [
        "ackbus-project",
        "ackbus-project-2",
        "ackbus-pro-ject",
        "ackbus-project-3",
    ]
    assert [entry["args"][-1] for entry in servers.values() if "args" in entry] == [
        f"{project}/.worker-state" for project in projects
    ]
    for project, text in reversed([*zip(projects, before, strict=True)]):
        setup = installation("windsurf", project, options=("--dir", f"{project}/.worker-state"))
        apply(setup.removals())
        assert path.read_text() == text


def test_windsurfs_project_stays_the_one_that_it_was_when_another_goes(root: Path) -> None:
    """Its entry is known by its bus, not by a name that would be free now."""
    buses = ["/a/project/.worker-state", "/b/project/.worker-state"]
    first, second = (installation("windsurf", root, options=("--dir", bus)) for bus in buses)
    apply(first.additions())
    apply(second.additions())
    apply(first.removals())
    apply(replace(second, agent="renamed").additions())
    path = root.parent / "home" / ".codeium" / "windsurf" / "mcp_config.json"
    (entry,) = json.loads(path.read_text())["mcpServers"].values()
    assert entry["args"] == ["mcp", "--agent", "renamed", "--dir", buses[1]]


@pytest.mark.parametrize("settings", [None, '{\n  "projects": {"/else": {"mcpServers": {}}}\n}\n'])
def test_setup_for_one_person_changes_no_file_that_is_committed(
    settings: str | None, root: Path
) -> None:
    """Issue 19, item 11: Claude Code has a person's own files of a project."""
    own = root.parent / "home" / ".claude.json"
    if settings is not None:
        own.write_text(settings)
    before = contents(root.parent)
    link = root.parent / "link"
    link.symlink_to(root)
    setup = installation("claude", link, scope="local")
    apply(setup.additions())
    assert [*contents(root)] == [".claude/settings.local.json"]
    servers = json.loads(own.read_text())["projects"][str(root)]["mcpServers"]
    assert servers["ackbus"]["args"][:3] == ["mcp", "--agent", "me"]
    assert setup.as_it_stands().agent == "me"
    assert setup.additions() == []
    apply(setup.removals())
    assert contents(root.parent) == before


def test_copilot_is_told_twice_of_the_server(root: Path) -> None:
    """Its command line reads no file of VS Code, and the other way round."""
    apply(installation("copilot", root).additions())
    in_code = json.loads((root / ".vscode" / "mcp.json").read_text())["servers"]
    alone = json.loads((root / ".github" / "mcp.json").read_text())["mcpServers"]
    server = {"command": BUS, "args": ["mcp", "--agent", "me", "--dir", "/a b/.worker-state"]}
    assert in_code == {"ackbus": {"type": "stdio", **server}}
    assert alone == {"ackbus": {"type": "local", **server, "tools": ["*"]}}


def test_older_entry_is_renewed_and_what_people_added_stays(root: Path) -> None:
    apply(installation("gemini", root, bus="/old/bin/bus", agent="old").additions())
    path = root / ".gemini" / "settings.json"
    value = json.loads(path.read_text())
    value["mcpServers"]["ackbus"]["trust"] = True
    path.write_text(json.dumps(value, indent=4))
    apply(installation("gemini", root).additions())
    text = path.read_text()
    assert "/old" not in text
    entry = json.loads(text)["mcpServers"]["ackbus"]
    assert (entry["command"], entry["trust"]) == (BUS, True)
    assert all(len(hooks) == 1 for hooks in json.loads(text)["hooks"].values())
    apply(installation("gemini", root).removals())
    left = json.loads(path.read_text()) if path.exists() else {}
    assert "ackbus" not in json.dumps(left)
    assert BUS not in json.dumps(left)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        case(name, text, id=f"{name}-{form}", by_day=(row + column) % 3 == 0)
        for row, name in enumerate(JSON_PROGRAMS)
        for column, (form, text) in enumerate([("none", None), *JSON_FILES.items()])
    ],
)
def test_what_was_renewed_is_given_back_too(name: str, text: str | None, root: Path) -> None:
    """An entry is renewed in the layout that it has: whoever was first made it."""
    older = installation(name, root, bus="/old/bin/bus", agent="old")
    for file in (Path(file.path) for file in older.files() if file.is_json and text is not None):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((text or "").encode())
    before = contents(root.parent)
    apply(older.additions())
    setup = installation(name, root)
    apply(setup.additions())
    assert not [path for path, text in contents(root.parent).items() if b"/old/" in text]
    apply(setup.removals())
    assert contents(root.parent) == before


def test_older_table_is_renewed_in_its_place(root: Path) -> None:
    apply(installation("codex", root, bus="/old/bin/bus").additions())
    path = root / ".codex" / "config.toml"
    own = 'startup_timeout_sec = 20\n\n[mcp_servers.ackbus.env]\nA = "b"\n\n# other\n[x]\ny = 1\n'
    path.write_text(path.read_text() + own)
    apply(installation("codex", root).additions())
    now = tomllib.loads(path.read_text())
    assert now["x"] == {"y": 1}
    ours = now["mcp_servers"]["ackbus"]
    assert (ours["command"], ours["startup_timeout_sec"], ours["env"]) == (BUS, 20, {"A": "b"})
    apply(installation("codex", root).removals())
    assert tomllib.loads(path.read_text()) == {"x": {"y": 1}}
    assert "# other" in path.read_text()


#: What people write into and around a table of ours.
TOML_AROUND = {
    "a date": "since = 2026-01-01\n",
    "a comment": "# mine\nstartup_timeout_sec = 20 # it is slow\n",
    "names in quotes": '[mcp_servers.ackbus.env]\n"A.B" = "1"\n"my key" = [{ c = 1 }]\n',
    "another table, indented": "\n  [other]\n  key = 1\n",
    "a list of tables": '\n\t[[other]]\n\tcommand = "x"\n',
    "the key of another": '[mcp_servers.ackbus.env]\ncommand = "x"\n',
}


@pytest.mark.parametrize("around", TOML_AROUND.values(), ids=list(TOML_AROUND))
def test_values_of_a_table_are_renewed_and_all_else_stays(around: str, root: Path) -> None:
    older, newer = installation("codex", root, agent="old"), installation("codex", root)
    path = root / ".codex" / "config.toml"
    apply(older.additions())
    path.write_text(path.read_text() + around)
    for before, after in (("old", "me"), ("me", "old")):
        text = path.read_text()
        apply(replace(newer, agent=after).additions())
        assert path.read_text() == text.replace(f'"{before}"', f'"{after}"')
    apply(newer.removals())
    left = tomllib.loads(path.read_text()) if path.exists() else {}
    assert left == ({"other": tomllib.loads(around)["other"]} if "other" in around else {})


@pytest.mark.parametrize(
    "args",
    ["[ # our args\n  'mcp', # ]\n '--agent', 'old']  # end", '["mcp", """--agent""", "old"]# end'],
)
def test_value_of_several_lines_is_renewed(args: str, root: Path) -> None:
    apply(installation("codex", root).additions())
    path = root / ".codex" / "config.toml"
    path.write_text(f"[mcp_servers.ackbus]\ncommand='/old/bus'\nargs   ={args}\nx = 1")
    apply(installation("codex", root).additions())
    assert path.read_text().endswith(
        '"/a b/.worker-state"]' + args[args.rindex("]") + 1 :] + "\nx = 1"
    )
    assert tomllib.loads(path.read_text())["mcp_servers"]["ackbus"]["command"] == BUS


def test_key_in_quotes_is_refused_by_what_to_do(root: Path) -> None:
    path = root / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(
        '[mcp_servers.ackbus]\n"command" = "/old/bus"\nargs = ["mcp", "--agent", "a"]\n'
    )
    with pytest.raises(Refused, match="write command and args on lines of their own; the file is"):
        installation("codex", root).additions()


@pytest.mark.parametrize("before", [None, "", "# Rules\r\n"])
def test_older_pointer_is_given_back_too(
    before: str | None, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of another version's setup may be any."""
    setup, path = installation("claude", root), root / "AGENTS.md"
    if before is not None:
        path.write_bytes(before.encode())
    pointer = installing._POINTER
    monkeypatch.setattr(installing, "_POINTER", "Others are here.\n")
    apply(setup.additions())
    older = path.read_bytes()
    assert b"Others are here" in older
    monkeypatch.setattr(installing, "_POINTER", pointer)
    apply(setup.additions())
    assert (b"Others are here" in path.read_bytes(), b"bus prime" in path.read_bytes()) == (
        False,
        True,
    )
    apply(setup.removals())
    assert (path.read_bytes().decode() if path.exists() else None) == before


def test_older_plugin_is_renewed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = tmp_path / "older.js"
    older.write_text(record._TEMPLATE.read_text().replace("hook.stdin.end", "// hook.stdin.end"))
    with monkeypatch.context() as patched:
        patched.setattr(record, "_TEMPLATE", older)
        apply(installation("opencode", root, bus="/old/bin/bus").additions())
    setup, path = installation("opencode", root), root / ".opencode" / "plugins" / "ackbus.js"
    assert "// hook.stdin.end" in path.read_text()
    apply(setup.additions())
    text = path.read_text()
    assert f'= ["{BUS}", "--agent", "me", "--dir", "/a b/.worker-state"]\n' in text
    assert "// hook.stdin.end" not in text
    assert apply(setup.additions()) == []
    apply(setup.removals())
    assert contents(root) == {}


def test_note_that_is_damaged_is_named_and_nothing_is_changed(root: Path) -> None:
    setup = installation("windsurf", root)
    apply(setup.additions())
    (note, _) = sorted((root.parent / "home" / ".config").rglob("*.json"))
    before = contents(root.parent)
    for text in ("", "[]", '{"entries": {"a": 1}}', '{"entries": {"a": {"x": 1}}}'):
        note.write_text(text)
        for changes in (replace(setup, agent="you").additions, setup.removals):
            with pytest.raises(InvalidInput, match="no note of 'bus setup'; move it away"):
                apply(changes())
    assert contents(root.parent) == before


def test_hook_that_shares_a_group_leaves_the_other(root: Path) -> None:
    setup = installation("claude", root)
    apply(setup.additions())
    path = root / ".claude" / "settings.json"
    value = json.loads(path.read_text())
    other = {"type": "command", "command": "say done"}
    value["hooks"]["Stop"][0]["hooks"].append(other)
    path.write_text(json.dumps(value, indent=2))
    assert str(path) not in [change.path for change in setup.additions()]
    apply(setup.removals())
    assert without_ours(json.loads(path.read_text())) == {"hooks": {"Stop": [{"hooks": [other]}]}}


BROKEN = [
    ("opencode", "opencode.json", '{"mcp": {}'),
    ("opencode", "opencode.json", "nonsense"),
    ("opencode", "opencode.json", '{"mcp": 1}'),
    ("opencode", "opencode.json", "[]"),
    ("opencode", "opencode.json", '{"a": 1, "a": 2}'),
    ("opencode", "opencode.json", '{"a": "line\nbreak"}'),
    ("opencode", "opencode.json", "[" * 5000),
    ("opencode", "opencode.json", '{"mcp": {"ackbus": {"type": "remote", "url": "http://x"}}}'),
    ("claude", ".claude/settings.json", '{"hooks": []}'),
    ("claude", ".claude/settings.json", '{"hooks": {"Stop": {}}}'),
    ("codex", ".codex/config.toml", "a = "),
    ("codex", ".codex/config.toml", "mcp_servers = {x = {}}\n"),
    ("codex", ".codex/config.toml", "mcp_servers = 1\n"),
    ("opencode", ".opencode/plugins/ackbus.js", "export const Mine = async () => ({})\n"),
    ("claude", "AGENTS.md", "<!-- ackbus:begin -->\nmine\n"),
    ("claude", "AGENTS.md", "<!-- ackbus:end -->\n<!-- ackbus:begin -->\n"),
]


@pytest.mark.parametrize(("name", "file", "text"), BROKEN)
def test_file_that_is_not_understood_is_refused_and_left(
    name: str, file: str, text: str, root: Path
) -> None:
    """Issue 7, item 7: nothing is changed, in no other file either."""
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    before = contents(root)
    with pytest.raises((InvalidInput, Refused)) as refused:
        apply(installation(name, root).additions())
    assert str(path) in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert contents(root) == before


def test_inline_table_is_refused_by_what_to_do(root: Path) -> None:
    """It is valid TOML: nothing is said of a line that the file hasn't."""
    path = root / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text('mcp_servers = { gh = { command = "gh" } }\n')
    with pytest.raises(Refused, match=r"like \[mcp_servers\.NAME\]; the file is left") as refused:
        installation("codex", root).additions()
    assert "line" not in str(refused.value).replace(str(path), "")


def test_file_that_is_no_utf8_is_refused(root: Path) -> None:
    (root / "opencode.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(AckbusError, match=r"opencode\.json.*UTF-8"):
        installation("opencode", root).additions()


def test_file_that_is_read_only_is_refused_before_anything_is_changed(root: Path) -> None:
    """Its folder would let us replace it; who made it read-only did not want that."""
    path = root / "AGENTS.md"
    path.write_text("mine")
    path.chmod(0o444)
    with pytest.raises(Refused, match=r"AGENTS\.md is read-only"):
        apply(installation("claude", root).additions())
    assert contents(root) == {"AGENTS.md": b"mine"}


def test_file_that_cannot_be_written_is_named(root: Path) -> None:
    """And not the one beside it that was to take its place."""
    home = root.parent / "home"
    (home / ".claude").symlink_to("/proc")
    with pytest.raises(Refused, match=r"\.claude/settings\.json can't be written: "):
        apply(installation("claude", home, scope="global").additions())


@pytest.mark.parametrize("link", [".mcp.json", ".claude", ".claude/settings.json", "AGENTS.md"])
def test_link_that_leads_nowhere_is_refused_and_nothing_is_made_there(
    link: str, root: Path
) -> None:
    """Issue 19, item 11: neither a file nor a folder, whatever the link leads to."""
    elsewhere = root / "elsewhere"
    path = root / link
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(elsewhere)
    setup = installation("claude", root)
    for changes in (setup.additions, setup.removals):
        with pytest.raises(Refused, match=f"{link} is a link to '{elsewhere}', which is not there"):
            apply(changes())
    assert (contents(root), elsewhere.exists()) == ({}, False)


@pytest.mark.parametrize("program", ["claude", "codex", "opencode"])
def test_what_is_no_ordinary_file_is_refused(program: str, root: Path) -> None:
    """A pipe would never end; root could put a file in the place of a device."""
    home = root.parent / "home"
    everywhere = installation(program, home, scope="global")
    device = Path(everywhere.files()[0].path)
    device.parent.mkdir(parents=True, exist_ok=True)
    device.symlink_to(os.devnull)
    for changes in (everywhere.additions, everywhere.removals):
        with pytest.raises(Refused, match=f"{device} is no ordinary file; it is left as it is"):
            changes()
    for file in installation(program, root).files():
        path = Path(file.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
        with pytest.raises(Refused, match="is no ordinary file"):
            installation(program, root).additions()
        path.unlink()


def test_mode_and_link_of_a_file_stay(root: Path) -> None:
    real = root / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o640)
    link = root / "opencode.json"
    link.symlink_to(real)
    setup = installation("opencode", root)
    apply(setup.additions())
    assert link.is_symlink()
    assert (real.stat().st_mode & 0o777, "ackbus" in real.read_text()) == (0o640, True)
    apply(setup.removals())
    assert (link.is_symlink(), real.read_text()) == (True, "{}")


def test_file_that_changed_meanwhile_is_not_overwritten(root: Path) -> None:
    setup = installation("opencode", root)
    (change, *_) = setup.additions()
    (root / "opencode.json").write_text('{"new": 1}')
    with pytest.raises(Refused, match="changed by another program"):
        change.apply()
    assert (root / "opencode.json").read_text() == '{"new": 1}'


def test_jsonc_is_taken_where_it_is_there(root: Path) -> None:
    (root / "opencode.jsonc").write_text('{\n  // mine\n  "a": 1\n}\n')
    apply(installation("opencode", root).additions())
    assert not (root / "opencode.json").exists()
    assert "// mine" in (root / "opencode.jsonc").read_text()


def test_pointer_stays_while_another_program_needs_it(root: Path) -> None:
    first, second = installation("claude", root), installation("codex", root)
    for setup in (first, second):
        apply(setup.additions())
    apply(first.removals())
    assert (root / "AGENTS.md").exists()
    apply(second.removals())
    assert contents(root) == {}


@pytest.mark.parametrize("scope", ["project", "global"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_check_finds_entries_of_an_environment_that_has_moved(
    name: str, scope: Scope, bus: Bus, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 31, item 14: they keep absolute paths; each one is found, and nothing of it is run."""
    monkeypatch.setenv("HOME", str(project))
    dead = Installation(name, name, "/gone/venv/bin/bus", str(project), scope=scope)
    for change in dead.additions():
        change.apply()
    now = replace(dead, bus="/here/venv/bin/bus")
    found = [each for each in check(now, bus) if not each.is_well]
    assert {each.part for each in found} >= {"configuration", "mcp"}
    assert all(f"run 'bus setup {name}" in each.says for each in found), found
    assert all("/gone/venv/bin/bus" in each.says for each in found if each.part == "mcp")
