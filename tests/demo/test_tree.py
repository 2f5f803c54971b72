"""Which files the demo examines, and how their names travel."""

import os
from pathlib import Path

import pytest

from ackbus.demo.worker import SNIFFED_BYTES, TextFiles, path_from_payload, path_to_payload


def write(root: Path, *names: str, data: bytes = b"text\n") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def test_files_come_in_order_of_names(tmp_path: Path) -> None:
    write(tmp_path, "b", "a/z", "a/b/c", ".editorconfig")
    assert list(TextFiles(str(tmp_path))) == [".editorconfig", "b", "a/z", "a/b/c"]


def test_generated_and_hidden_directories_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "kept", "a/.git/x", ".venv/x", "__pycache__/x", "a/node_modules/b/x")
    write(tmp_path, ".worker-state/bus.jsonl", "build/lib/x", "a/dist/x", "a.egg-info/x", "venv/x")
    write(tmp_path, "building/kept")
    assert list(TextFiles(str(tmp_path))) == ["kept", "building/kept"]


def test_directory_of_the_bus_is_left_out_whatever_its_name(tmp_path: Path) -> None:
    write(tmp_path, "kept", "bus/bus.jsonl")
    assert list(TextFiles(str(tmp_path), leave_out=str(tmp_path / "bus"))) == ["kept"]


def test_binary_files_are_passed_over_and_counted(tmp_path: Path) -> None:
    write(tmp_path, "early", data=b"x" * (SNIFFED_BYTES - 1) + b"\0")
    write(tmp_path, "late", data=b"x" * SNIFFED_BYTES + b"\0")
    tree = TextFiles(str(tmp_path))
    assert (list(tree), tree.binary) == (["late"], 1)


def test_symbolic_links_and_devices_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "dir/file")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "link").symlink_to(tmp_path / "dir/file")
    os.mkfifo(tmp_path / "fifo")
    assert list(TextFiles(str(tmp_path))) == ["dir/file"]


def test_directory_that_vanishes_is_counted(tmp_path: Path) -> None:
    write(tmp_path, "a", "gone/file")
    tree = TextFiles(str(tmp_path))
    files = iter(tree)
    assert next(files) == "a"
    (tmp_path / "gone/file").unlink()
    (tmp_path / "gone").rmdir()
    assert (list(files), tree.unreadable) == ([], 1)


@pytest.mark.parametrize("name", [b"plain", "zwölf".encode(), b"\x1b[31m\n", b"no-utf8-\xff"])
def test_every_file_name_survives_a_payload(name: bytes) -> None:
    path = os.fsdecode(name)
    payload = path_to_payload(path)
    payload["path"].encode()
    assert path_from_payload(payload) == path
