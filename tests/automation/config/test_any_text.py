"""Any text in the files: a configuration is taken or refused, and nothing else is raised."""

from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackbus.automation.active_config import examine_folder
from ackbus.automation.config.redaction import shown
from ackbus.automation.config.values import ConfigFaults, Fault
from ackbus.automation.config.yaml_tree import parse
from ackbus.automation.plugins.manifest import read_manifest

from ...sizes import size
from .test_ductile_folders import ENVIRON, MANIFEST, PAGES, SPECIFICATION

#: Values in places where something else is meant.
HOSTILE = [
    *("", "~", "null", "true", "[]", "{}", "[[]]", "{a: {b: c}}", "'", '"', "*a", "&a", "<<: *a"),
    *("0", "-1", "1e999", "99999999999999999999", "0x", "1.5", ".inf", "!x y", "|", ">", "%", "@"),
    *("${A}", "${", "$A", "\t", "\\", "\u0000", "\u202e", "\ue000", "\U0001f600", "é", "#", "- -"),
    *("? a", "---", "...", "a: b: c", "2026-13-45T99:99:99Z", "25:61-00:00", "0s", "999999999w"),
    *("../../etc/passwd", "/dev/zero", "*" * 50, "[" * 70, "x" * 5000, "60 * * * *", "* * 31 2 *"),
]

TEXTS = {name: dedent(text).lstrip("\n") for name, text in (SPECIFICATION | PAGES).items()}


#: The same examples in every run, and no clock to fail on.
SETTINGS = settings(
    derandomize=True,
    deadline=None,
    max_examples=size(sample=60, whole=2000),
    suppress_health_check=[HealthCheck.too_slow],
)


@st.composite
def edited(draw: st.DrawFn, text: str) -> str:
    """Return a text with some lines taken out, repeated, cut, or given another value."""
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        line, hostile = lines[at], draw(st.sampled_from(HOSTILE))
        indent = line[: len(line) - len(line.lstrip())]
        edits = [
            *([line, line], [], [line[: len(line) // 2]], [indent + hostile]),
            *([line.partition(":")[0] + ": " + hostile], [line, f"{indent}{hostile}: x"]),
            [f"{indent}- {hostile}"],
        ]
        lines[at : at + 1] = draw(st.sampled_from(edits))
        lines = lines or [""]
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@SETTINGS
@given(st.data(), st.sampled_from(sorted(TEXTS)))
def test_an_edited_folder_is_taken_or_refused(data: st.DataObject, name: str) -> None:
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for each, text in TEXTS.items():
            path = folder / f"{each.replace('__', '/')}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(data.draw(edited(text)) if each == name else text)
        faults = refusal_of(folder)
    assert all(fault.file and fault.message and "\n" not in fault.message for fault in faults)


def refusal_of(folder: Path) -> tuple[Fault, ...]:
    """Return the faults of a folder; one that is taken can be shown."""
    try:
        snapshot = examine_folder(folder, ENVIRON)
    except ConfigFaults as refused:
        return refused.faults
    orjson.dumps(shown(snapshot.config))
    return ()


@SETTINGS
@given(st.data())
def test_an_edited_manifest_is_taken_or_refused(data: st.DataObject) -> None:
    with TemporaryDirectory() as scratch:
        path = Path(scratch, "manifest.yaml")
        path.write_text(data.draw(edited(dedent(MANIFEST).lstrip("\n"))))
        manifest, faults = read_manifest(path)
        assert (manifest is None) == bool(faults)


@SETTINGS
@given(st.text())
def test_any_text_is_a_tree_or_has_faults(text: str) -> None:
    tree, faults = parse(text, "f")
    assert isinstance(tree, dict)
    assert all(fault.file == "f" and fault.message for fault in faults)
