"""Issue 32, item 1: whatever people wrote stays theirs; setup's own is what it wrote and recorded.

A table over the programs, the places of their setup, and what a person may have there; and the
layouts in which people keep that.
"""

import hashlib
import json
import random
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ackbus.schema.errors import Refused
from ackbus.setup import installation as installing
from ackbus.setup import record, text_edits
from ackbus.setup.programs import PROGRAMS

from ..sizes import sampled
from .test_setup_files import BUS, apply, contents, installation, root

__all__ = ["root"]

#: A person's own servers of our name.
SERVERS: dict[str, Any] = {
    "another program": {"command": "/mine/tool", "args": ["serve"], "env": {"TOKEN": "secret"}},
    "a wrapper": {"command": "/bin/sh", "args": ["-c", "exec bus mcp --agent me"]},
    "a runner": {
        "command": "uvx",
        "args": ["--from", "ackbus[mcp]", "bus", "mcp", "--agent", "me"],
    },
    "by the PATH": {"command": "bus", "args": ["mcp", "--agent", "me"]},
    "without an agent": {"command": "/home/me/bin/bus", "args": ["mcp", "--dir", "/x"]},
    "another option": {"command": "/opt/bus", "args": ["mcp", "--agent", "me", "--log", "/tmp/l"]},
    "an option twice": {"command": "/opt/bus", "args": ["mcp", "--agent", "a", "--agent", "b"]},
    "no value": {"command": "/opt/bus", "args": ["mcp", "--agent"]},
    "another verb": {"command": "/opt/bus", "args": ["serve", "--agent", "me"]},
    "a token": {"command": BUS, "args": ["mcp", "--agent", "me"], "env": {"TOKEN": "secret"}},
    "a member more": {"command": BUS, "args": ["mcp", "--agent", "me"], "disabled": True},
    "a URL": {"type": "http", "url": "https://example.org/mcp"},
    "nothing in it": {},
}

#: A person's own commands of hooks that hand over mail of the bus.
HOOKS = {
    "a wrapper": "timeout 5 {bus} hook {event} {program} --agent me",
    "by the PATH": "bus hook {event} {program} --agent me",
    "another command": "{bus} hook {event} {program} --agent me; say done",
    "a variable": "TOKEN=secret {bus} hook {event} {program} --agent me",
}

#: How people lay out JSON.
LAYOUTS: dict[str, Callable[[Any], str]] = {
    "two": lambda value: json.dumps(value, indent=2),
    "two and a line": lambda value: json.dumps(value, indent=2) + "\n",
    "four": lambda value: json.dumps(value, indent=4) + "\n",
    "tabs": lambda value: json.dumps(value, indent="\t"),
    "one line": json.dumps,
    "narrow": lambda value: json.dumps(value, separators=(",", ":")),
    "comments": lambda value: "// mine\n" + json.dumps(value, indent=2) + "\n",
}


def _of_opencode(server: dict[str, Any]) -> dict[str, Any]:
    """A server in the form of opencode, whose command line is one list."""
    line = [server["command"], *server["args"]] if "command" in server else []
    rest = {key: value for key, value in server.items() if key not in ("command", "args")}
    return {"type": "local", "command": line, **rest}


def _toml(server: dict[str, Any]) -> str:
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in server.items() if key != "env"]
    env = [f"{key} = {json.dumps(value)}\n" for key, value in server.get("env", {}).items()]
    return "".join(
        ["[mcp_servers.ackbus]\n", *lines, *(["[mcp_servers.ackbus.env]\n"] * bool(env)), *env]
    )


def places(name: str, folder: Path, scope: str) -> Iterator[tuple[Path, Any]]:
    """Each file of a program that has a server or a hook of ours, with the edit of that."""
    for file in installation(name, folder, scope=scope).files():
        for edit in file.edits:
            yield Path(file.path), edit


def foreign() -> Iterator[tuple[str, str, str, str, str]]:
    """Every program, file, and thing of a person's in the place of ours there, in every layout."""
    for name in PROGRAMS:
        for number, (path, edit) in enumerate(places(name, Path("/project"), "project")):
            kind = type(edit).__name__
            mine = {
                "JsonServer": SERVERS,
                "TomlServer": SERVERS,
                "JsonHook": HOOKS,
                "PluginFile": PLUGINS,
                "Section": SECTIONS,
            }.get(kind, {})
            layouts = LAYOUTS if kind.startswith("Json") else {"": str}
            for what in mine:
                for layout in layouts:
                    yield name, f"{number} {path.name}", kind, what, layout


PLUGINS = {
    "another plugin": "export const Mine = async () => ({})\n",
    "ours, and more": "{ours}\nexport const Mine = async () => ({{}})\n",
    "our first line": "// Hands mail of the message bus (ackbus) over to the agents of opencode.\n",
    "ours, which runs more": "{ours_with_another_command}\n",
}

SECTIONS = {
    "own words": "Hi\n<!-- ackbus:begin -->\nmine\n<!-- ackbus:end -->\nho\n",
    "a line more": "<!-- ackbus:begin -->\n{ours}TOKEN=secret\n<!-- ackbus:end -->\n",
    "shown": "Write `<!-- ackbus:begin --> x <!-- ackbus:end -->` there.\n",
}


def text_of(name: str, edit: Any, kind: str, what: str, layout: str) -> str:
    """The text of a file that has a thing of a person's in the place of ours."""
    if kind == "TomlServer":
        return _toml(SERVERS[what])
    if kind == "JsonServer":
        value = _of_opencode(SERVERS[what]) if name == "opencode" else SERVERS[what]
        for key in (*edit.within[::1], "ackbus")[::-1]:
            value = {key: value}
        return LAYOUTS[layout](value)
    if kind == "JsonHook":
        _, event, program = edit.mark.split()
        line = HOOKS[what].format(bus="/opt/bus", event=event, program=program)
        item: dict[str, Any] = {"type": "command", "command": line}
        item = {"hooks": [item]} if "hooks" in edit.item else item
        return LAYOUTS[layout]({"hooks": {edit.path[-1]: [item]}, "version": 1})
    if kind == "PluginFile":
        other = edit.text.replace('"--agent"', '"-c", "say", "--agent"')
        return PLUGINS[what].format(ours=edit.text, ours_with_another_command=other)
    return SECTIONS[what].format(ours=edit.body)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "place", "kind", "what", "layout"), sampled(foreign(), every=5))
def test_what_is_a_persons_own_is_refused_and_left(
    name: str, place: str, kind: str, what: str, layout: str, root: Path
) -> None:
    """By setup before it changes anything, and by its removal."""
    path, edit = [*places(name, root, "project")][int(place.split()[0])]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text_of(name, edit, kind, what, layout))
    before = contents(root.parent)
    for change in (installation(name, root).additions, installation(name, root).removals):
        with pytest.raises(Refused, match=r"rename it|take it out|move it out") as refused:
            change()
        assert (str(path) in str(refused.value), contents(root.parent)) == (True, before)
    assert not installation(name, root).is_set_up() or kind != "Section"


@pytest.mark.parametrize("what", SERVERS)
@pytest.mark.parametrize("layout", ["two", "comments"])
def test_persons_own_stays_in_the_list_of_all_projects(what: str, layout: str, root: Path) -> None:
    """Windsurf: ours is put beside it, or refused where it is of the same bus."""
    ((path, _), *_) = places("windsurf", root, "project")
    path.parent.mkdir(parents=True)
    text = LAYOUTS[layout]({"mcpServers": {"ackbus-project": SERVERS[what]}})
    path.write_text(text.replace("/x", "/a b/.worker-state"))
    before = path.read_text()
    for change in (
        installation("windsurf", root).additions,
        installation("windsurf", root).removals,
    ):
        with suppress(Refused):
            apply(change())
    assert path.read_text() == before


@pytest.mark.parametrize("name", PROGRAMS)
def test_hook_of_another_program_is_nobodys_mark(name: str, root: Path) -> None:
    """Words that look like ours in another program's command."""
    for path, edit in places(name, root, "project"):
        if type(edit).__name__ != "JsonHook":
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        line = f"/usr/bin/notify{edit.mark}--agent me"
        path.write_text(json.dumps({"hooks": {edit.path[-1]: [{"command": line}]}}, indent=2))
        before = path.read_text()
        apply(installation(name, root).additions())
        assert line in path.read_text()
        apply(installation(name, root).removals())
        assert path.read_text() == before
        path.unlink()


@pytest.mark.parametrize("name", PROGRAMS)
def test_entry_that_a_person_put_in_the_place_of_ours_stays(name: str, root: Path) -> None:
    """Also where setup has made the file: what it recorded is not what stands there now."""
    apply(installation(name, root).additions())
    for path, edit in places(name, root, "project"):
        kind = type(edit).__name__
        if kind not in ("JsonServer", "TomlServer"):
            continue
        path.write_text(text_of(name, edit, kind, "another program", "two and a line"))
        before = path.read_text()
        for change in (installation(name, root).removals, installation(name, root).additions):
            with pytest.raises(Refused, match="rename it"):
                change()
        assert path.read_text() == before


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_person_added_goes_with_a_copy(name: str, root: Path) -> None:
    """To an entry that setup made; where no copy can be kept, nothing is taken out."""
    apply(installation(name, root).additions())
    texts = {}
    for path, edit in places(name, root, "project"):
        if type(edit).__name__.startswith("JsonServer"):
            value = json.loads(path.read_text())
            next(iter(value[edit.within[0]].values()))["env"] = {"TOKEN": "secret"}
            path.write_text(json.dumps(value, indent=2))
            texts[path] = path.read_text()
        elif type(edit).__name__ == "TomlServer":
            path.write_text(path.read_text() + '\n[mcp_servers.ackbus.env]\nTOKEN = "secret"\n')
            texts[path] = path.read_text()
    apply(installation(name, root).additions())
    assert {path: path.read_text() for path in texts} == texts
    records = root.parent / "home" / ".config" / "ackbus" / "setup"
    (records / "removed").write_text("no folder")
    with pytest.raises(Refused, match=r"no copy of what is taken out of .* can be kept"):
        apply(installation(name, root).removals())
    (records / "removed").unlink()
    apply(installation(name, root).removals())
    assert not [path for path in texts if path.exists()]
    copies = [json.loads(path.read_text()) for path in (records / "removed").iterdir()]
    assert {
        path for path in (records / "removed").iterdir() if path.stat().st_mode & 0o077
    } == set()
    for path in texts:
        (kept,) = [copy["removed"] for copy in copies if copy["file"] == str(path)]
        assert "secret" in "".join(kept)


@pytest.mark.parametrize("name", PROGRAMS)
def test_file_of_a_person_is_never_removed(name: str, root: Path) -> None:
    """Setup has recorded that it was there, in whichever layout it is by now."""
    empty = {"JsonServer": "{}", "JsonHook": '{"version": 1}', "TomlServer": "\n", "Section": "\n"}
    files = {path: empty.get(type(edit).__name__) for path, edit in places(name, root, "project")}
    for path, text in files.items():
        if text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    apply(installation(name, root).additions())
    for path in files:
        if path.suffix == ".json":
            path.write_text(json.dumps(json.loads(path.read_text()), indent=2) + "\n")
    apply(installation(name, root).removals())
    assert {path for path, text in files.items() if text is not None and not path.exists()} == set()
    assert BUS not in "".join(path.read_text() for path in files if path.exists())


@pytest.mark.parametrize("name", PROGRAMS)
def test_files_that_another_machine_set_up_are_known_by_what_they_say(
    name: str, root: Path
) -> None:
    """As a clone has them, or a home without records."""
    apply(installation(name, root).additions())
    made = contents(root)
    records = root.parent / "home" / ".config" / "ackbus" / "setup"
    for path in records.iterdir():
        path.unlink()
    apply(installation(name, root, agent="you").additions())
    apply(installation(name, root).removals())
    assert (bool(made) or name == "windsurf", contents(root)) == (True, {})


def test_versions_of_our_texts_are_known() -> None:
    """A change of one of them adds its hash, and keeps the earlier ones."""
    text = record._TEMPLATE.read_text().rstrip()
    assert hashlib.sha256(text.encode()).hexdigest()[:16] in record._VERSIONS
    assert text_edits._digest(installing._POINTER) in text_edits._BODIES


TOML_WITH_HEADERS_INSIDE = {
    "a text": 'a = """\n[mcp_servers.ackbus]\ncommand = "x"\n"""\n',
    "a literal text": "a = '''\n[mcp_servers.ackbus]\n'''\n",
    "a quote in a text": 'a = """\\"""\n[mcp_servers.ackbus]\n""""\nb = "["\n',
    "a text of ours": (
        'b = [\n  ["mcp_servers.ackbus"], # [mcp_servers.ackbus]\n  [\n  1]\n]\nc = \'"""\'\n'
    ),
    "a text with a quote": "a = \"it's\"\nb = 'say \"'\nc = '''\n'\n[mcp_servers.ackbus]\n'''\n",
    "a table with a text": '[x]\ny = """\n[z]\n[mcp_servers.ackbus.env]\n"""\nw = 1\n',
}


@pytest.mark.parametrize("text", TOML_WITH_HEADERS_INSIDE.values(), ids=TOML_WITH_HEADERS_INSIDE)
@pytest.mark.parametrize("is_before", [True, False])
def test_header_inside_of_a_text_is_no_header(text: str, is_before: bool, root: Path) -> None:
    """Codex: what looks like our table in the value of another stays, before and behind ours."""
    path = root / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(text if is_before else "")
    apply(installation("codex", root).additions())
    if not is_before:
        path.write_text(path.read_text() + "\n[other]\n" + text.replace("[x]", "[other.x]"))
    value = tomllib.loads(path.read_text())
    assert value["mcp_servers"]["ackbus"]["command"] == BUS
    apply(installation("codex", root, agent="you").additions())
    apply(installation("codex", root).removals())
    left = {key: each for key, each in value.items() if key != "mcp_servers"}
    assert tomllib.loads(path.read_text()) == left
    assert not is_before or path.read_text() == text


@pytest.mark.parametrize("seed", range(20))
def test_no_layout_gives_a_persons_values_away(seed: int, root: Path) -> None:
    """A small fuzzer: setup, removal and people's editors take turns, in random order."""
    chance = random.Random(seed)
    name = chance.choice([name for name in PROGRAMS if name not in ("codex", "windsurf")])
    paths = sorted({path for path, _ in places(name, root, "project") if path.suffix == ".json"})
    mine: dict[Path, Any] = {}
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        mine[path] = {"mine": chance.choice([1, {}, [], "x"]), "mcpServers": {"other": {}}}
        path.write_text(chance.choice([*LAYOUTS.values()])(mine[path]))
    for _ in range(6):
        step = chance.choice(["add", "remove", "lay out", "write"])
        path = chance.choice(paths)
        text = path.read_text()
        if step == "add":
            apply(installation(name, root, agent=chance.choice("ab")).additions())
        elif step == "remove":
            apply(installation(name, root).removals())
        elif not text.startswith("//"):
            value = json.loads(text)
            if step == "write":
                mine[path]["more"] = value["more"] = chance.random()
            path.write_text(chance.choice([*LAYOUTS.values()])(value))
    apply(installation(name, root).removals())
    for path, value in mine.items():
        text = path.read_text().removeprefix("// mine\n")
        assert BUS not in text
        left = json.loads(text)
        assert {key: left[key] for key in value} == value
