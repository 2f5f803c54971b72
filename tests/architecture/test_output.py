"""Output leaves by one door: a stream whose writes are whole, or an error."""

import re

from .rooms import read_modules
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
