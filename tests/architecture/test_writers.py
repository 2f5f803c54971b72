"""docs/writers.md has each place that writes files, with whose folder it is, and no other."""

import ast
from pathlib import Path

import pytest

from . import starts, writers
from .rooms import Module, read_modules

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "writers.md"


def test_document_has_each_place_that_writes_and_no_other() -> None:
    text = DOCUMENT.read_text("utf-8")
    assert starts.differences(read_modules(ROOT), text, writers.sites) == []


def test_each_line_of_the_document_is_a_row() -> None:
    text = DOCUMENT.read_text("utf-8")
    places = sum(
        line.split("|")[1].count("`") // 2 for line in text.splitlines() if line[:3] == "| `"
    )
    assert len(starts.rows_of(text)) == places


WRITERS = {
    "open(path, 'w')": "open",
    "open(path, mode='ab')": "open",
    "open(path, mode)": "open",
    "Path(path).open('x')": "open",
    "import os\nos.open(path, os.O_WRONLY | os.O_CREAT)": "os.open",
    "import os\nos.open(path, flags)": "os.open",
    "import os\nos.open(path, self._flags())": "os.open",
    "import os\nmove = os.replace": "os.replace",
    "from os import rename as r\nr(a, b)": "os.rename",
    "import shutil\nshutil.rmtree(path)": "shutil.rmtree",
    "import tempfile\ntempfile.mkdtemp()": "tempfile.mkdtemp",
    "Path(path).write_text(text)": ".write_text",
    "path.unlink(missing_ok=True)": ".unlink",
    "copy.backup('main', source, 'main')": ".backup",
    "import apsw\napsw.Connection(path)": "apsw.Connection",
    "from ..git.text_file import replace_text\nreplace_text(path, text, 0o644)": "replace_text",
    "from .folder import Folder\nFolder(path)": "Folder",
}


@pytest.mark.parametrize(("source", "name"), WRITERS.items(), ids=WRITERS.values())
def test_writer_without_a_row_is_found(source: str, name: str) -> None:
    (wrong,) = starts.differences([_module(source)], "", writers.sites)
    assert wrong.endswith(f"`{name}` is in no row of its place")


@pytest.mark.parametrize(
    "source",
    [
        "open(path)",
        "open(path, 'rb', buffering=0)",
        "open(fd, encoding='utf-8')",
        "import os\nos.open(path, os.O_RDONLY | os.O_CLOEXEC)",
        "text.replace('a', 'b')",
        "place.open()",
        "def f(folder: Folder) -> None: ...",
    ],
)
def test_what_writes_nothing_needs_no_row(source: str) -> None:
    assert starts.differences([_module(source)], "", writers.sites) == []


def _module(source: str) -> Module:
    return Module(Path("bus/x.py"), source, ast.parse(source))
