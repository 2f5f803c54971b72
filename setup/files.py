"""Configuration files: read, changed as a whole, and put in their place at once."""

from __future__ import annotations

import difflib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ..schema.errors import AckbusError, InvalidInput, Refused
from .edits import Edit, JsonHook, JsonServer
from .plugin import PluginFile
from .text_edits import TomlServer

T = TypeVar("T")

#: The mode of a new file: readable and writable by its owner only.
_MODE = 0o600

#: The bits of a mode that allow writing.
_WRITABLE = 0o222

#: Some editors put this before a text. Most of the programs skip it; the grammars don't know it.
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class ConfigFile:
    """One file, and what is put into it.

    Attributes:
        path: where it is.
        edits: the edits, in order.
        besides: the further members that a new file needs, as JSON.
    """

    path: str
    edits: Sequence[Edit]
    besides: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_json(self) -> bool:
        """Whether it is JSON, which is laid out for people where it is not there yet."""
        return self.path.endswith((".json", ".jsonc"))

    def read(self) -> str | None:
        """Return its text, or None when it does not exist."""
        try:
            with open(self.path, encoding="utf-8", newline="") as file:
                return file.read()
        except FileNotFoundError:
            _check_links(self.path)
            return None
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{self.path}: no UTF-8 text; left as it is") from error

    def server_words(self) -> list[str]:
        """Return the command line of the server as it stands; empty where none is understood."""
        try:
            _, text = _split(self.read() or "")
            servers = [edit for edit in self.edits if isinstance(edit, (JsonServer, TomlServer))]
            return next(filter(None, (server.words_in(text) for server in servers)), [])
        except AckbusError:  # changing or checking the file reports it
            return []

    def hook_commands(self) -> list[str]:
        """Return the command lines of the hooks as they stand; empty where none is understood."""
        try:
            _, text = _split(self.read() or "")
            hooks = [edit for edit in self.edits if isinstance(edit, (JsonHook, PluginFile))]
            return list(filter(None, (hook.command_in(text) for hook in hooks)))
        except AckbusError:  # changing or checking the file reports it
            return []

    def with_all(self, text: str | None) -> str:
        """Return the text with all edits; None: the file does not exist."""
        mark, there = _split(text or "")
        made = there or ("{}" if self.is_json else "")
        for edit in self.edits:
            made = self._explained(edit.put, made)
        if not there and self.is_json:
            made = json.dumps(json.loads(made) | self.besides, indent=2, ensure_ascii=False)
        return f"{made}\n" if text is None else mark + made

    def without(self, text: str | None) -> str | None:
        """Return the text without the edits; None when there was no file before."""
        if not text:
            return text
        mark, left = _split(text)
        there = replace(self, edits=[self._explained(e.found_in, left) for e in self.edits])
        for before in (None, ""):
            if text == there.with_all(before):
                return before
        for edit in reversed(there.edits):
            left = self._explained(edit.take, left)
        return mark + left

    def _explained(self, change: Callable[[str], T], text: str) -> T:
        try:
            return change(text)
        except AckbusError as error:
            raise type(error)(f"{self.path}: {error}; the file is left as it is") from error


def _check_links(path: str) -> None:
    """Refuse a path that is not there since a link on it leads nowhere: nothing is made there."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.exists(path):
        target = os.readlink(path)
        raise Refused(
            f"{path} is a link to {target}, which is not there: make it, or drop the link"
        )


def _split(text: str) -> tuple[str, str]:
    """Return the byte order mark, if there is one, and the text behind it."""
    return text[: text.startswith(_BYTE_ORDER_MARK)], text.removeprefix(_BYTE_ORDER_MARK)


@dataclass(frozen=True)
class Change:
    """A change of a file; None stands for no file.

    Attributes:
        path: the file.
        root: the folder within which empty folders are removed.
        before, after: its text.
    """

    path: str
    root: str
    before: str | None
    after: str | None

    @property
    def verb(self) -> str:
        """The past participle of the change."""
        if self.before is None:
            return "made"
        return "removed" if self.after is None else "changed"

    def diff(self) -> list[str]:
        """Return the lines of a unified diff."""
        before, after = ((text or "").splitlines() for text in (self.before, self.after))
        old, new = (os.devnull if text is None else self.path for text in (self.before, self.after))
        return list(difflib.unified_diff(before, after, old, new, lineterm=""))

    def check_allowed(self) -> None:
        """Refuse to change a file that is read-only: replacing it would be allowed by its folder.

        Raises:
            Refused: it is one.
        """
        if self.before is not None and not os.stat(self.path).st_mode & _WRITABLE:
            raise Refused(f"{self.path} is read-only; it is left as it is")

    def apply(self) -> None:
        """Replace the old text by the new one, unless the file has changed meanwhile.

        Raises:
            Refused: the file has changed since it was read, or can't be written.
        """
        if ConfigFile(self.path, ()).read() != self.before:
            raise Refused(f"{self.path} has just been changed by another program; try again")
        target = os.path.realpath(self.path)  # a link stays a link
        try:
            if self.after is None:
                os.unlink(target)
                self._remove_empty_folders(os.path.dirname(self.path))
            else:
                _replace(target, self.after)
        except OSError as error:
            raise Refused(f"{self.path} can't be written: {error.strerror}") from error

    def _remove_empty_folders(self, folder: str) -> None:
        with suppress(OSError):  # it has other files
            while folder.startswith(os.path.join(self.root, "")):
                os.rmdir(folder)
                folder = os.path.dirname(folder)


def _replace(path: str, text: str) -> None:
    """Replace a file atomically; its mode stays."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        mode = _MODE
    number, temporary = tempfile.mkstemp(dir=folder, prefix=".ackbus-")
    try:
        with open(number, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
