"""Files of megabytes, as programs keep their histories in: setup passes over them a few times."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ackbus.schema.errors import AckbusError
from ackbus.setup import json_edits
from ackbus.setup.files import MOST_PROJECT_BYTES, diff_of

from ..sizes import size
from .test_setup_files import apply, installation, root

__all__ = ["root"]

#: How often a text may be passed over by one change of it, at most.
PASSES = 40


@pytest.mark.parametrize("indent", [None, 2])
def test_long_file_is_passed_over_a_few_times(
    indent: int | None, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 32, item 12: `--remove` of 6 MB took 38 s; the work is counted, not the time."""
    path = root.parent / "home" / ".claude.json"
    history = [{"display": "some text " * 8, "pasted": {}}] * 20
    projects = {f"/home/me/{number}": {"history": history} for number in range(50)}
    path.write_text(json.dumps({"projects": projects, "starts": 3}, indent=indent))
    before = path.read_text()
    passed = 0
    pass_over = json_edits._pass_over

    def counting(text: str, at: int) -> tuple[Any, int]:
        nonlocal passed
        value, end = pass_over(text, at)
        passed += end - at
        return value, end

    monkeypatch.setattr(json_edits, "_pass_over", counting)
    json_edits.parse.cache_clear()
    for change in (
        installation("claude", root, scope="local").additions,
        installation("claude", root, scope="local").removals,
    ):
        passed = 0
        apply(change())
        assert passed < PASSES * len(before)
    assert path.read_text() == before


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
    setup.is_there(), setup.as_it_stands()
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
