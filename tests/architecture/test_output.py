"""Output leaves by one door: a stream whose writes are whole, or an error."""

import ast
import re
from pathlib import Path

import pytest

from .rooms import Module, read_modules
from .test_rooms import ROOT

#: The files that may take hold of a descriptor of output, each with the reason.
MAY = {
    "cli/show/output.py": "makes each write whole",
    "schema/descriptors.py": "writes all, or raises",
    "export/jsonl/jsonl_file.py": "loops over what is left",
    "bus/doorbell.py": "one byte, which may be lost",
    "workers/processes/own_child.py": "one byte",
    "cli/running/worker_host.py": "one byte",
    "torture/run.py": "one byte",
}

_DIRECT = re.compile(r"\bstdout\.(buffer|write)\b|\bos\.writev?\(")


def test_output_is_written_by_one_function() -> None:
    """Issue 31, item 1: a raw stream takes a part of what it is given, and says so to nobody."""
    modules = read_modules(ROOT)
    found = {each.path.as_posix() for each in modules if _DIRECT.search(each.text)}
    assert found == set(MAY)


def state_of_module(module: Module) -> list[str]:
    """List what a module of `cli` keeps beyond one command line, as `cli/hints.py:12: _named_by`.

    That is a name that a function rebinds, a variable (constants have names in capitals; what is
    made by a call, such as a group of commands, is a declaration), a container that begins empty,
    and an output.
    """
    places = [
        (node, name) for node in module.nodes if isinstance(node, ast.Global) for name in node.names
    ]
    for node in module.tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [name.id for name in targets if isinstance(name, ast.Name)]
        places += [(node, name) for name in names if _is_state(name, node.value)]
    return [module.at(node, name) for node, name in places]


def _is_state(name: str, value: ast.expr) -> bool:
    if name.startswith("__"):
        return False
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in ("Output", "list", "dict", "set")
    is_empty = ast.unparse(value) in ("[]", "{}")
    is_literal = isinstance(value, ast.Constant | ast.Tuple | ast.List | ast.Dict | ast.Set)
    return is_literal and (is_empty or not name.lstrip("_")[:1].isupper())


def test_no_module_of_the_command_line_keeps_what_one_line_sets() -> None:
    """A second command in the same process must not print in the form of the first."""
    commands = [module for module in read_modules(ROOT) if module.path.parts[0] == "cli"]
    assert len(commands) > 50
    assert [place for module in commands for place in state_of_module(module)] == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("_as_json = False", "_as_json"),
        ("_at_end: list[str] = []", "_at_end"),
        ("AT_END: list[str] = []", "AT_END"),
        ("_named_by: tuple[str, ...] = ()", "_named_by"),
        ("SHOWN = dict()", "SHOWN"),
        ("CURRENT = Output()", "CURRENT"),
        ("current: output.Output = output.Output(sys.argv)", "current"),
        ("def f():\n    global LIMIT\n    LIMIT = 1", "LIMIT"),
    ],
)
def test_state_of_a_module_is_found_however_it_is_kept(source: str, name: str) -> None:
    module = Module(Path("cli/show/output.py"), source, ast.parse(source))
    assert [place.rsplit(": ", 1)[1] for place in state_of_module(module)] == [name]


@pytest.mark.parametrize(
    "source", ["LIMIT = 3", 'WORDS = {"a": 1}', "commands = Commands()", "HERE: Any = None"]
)
def test_declarations_are_not_complained_of(source: str) -> None:
    module = Module(Path("cli/show/output.py"), source, ast.parse(source))
    assert state_of_module(module) == []
