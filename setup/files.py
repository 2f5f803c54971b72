"""Configuration files: read, changed as a whole, and put in their place at once."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ..schema.directory.enclosure import Enclosure, Spot
from ..schema.errors import AckbusError, InvalidInput, Refused
from .edits import Edit, JsonHook, JsonServer
from .plugin import PluginFile
from .taken_over import Entry, TakenOver
from .text_edits import TomlServer

T = TypeVar("T")

#: The bits of a mode that allow writing.
_WRITABLE = 0o222

#: The mode of a new folder, before the umask.
_FOLDER_MODE = 0o777

#: Some editors put this before a text. Most of the programs skip it; the grammars don't know it.
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class ConfigFile:
    """One file, and what is put into it.

    Attributes:
        path: where it is.
        enclosure: the project or the home that it is in.
        edits: the edits, in order.
        besides: the further members that a new file needs, as JSON.
    """

    path: str
    enclosure: Enclosure
    edits: Sequence[Edit]
    besides: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_json(self) -> bool:
        """Whether it is JSON, which is laid out for people where it is not there yet."""
        return self.path.endswith((".json", ".jsonc"))

    def read(self) -> str | None:
        """Return its text, or None when it does not exist.

        Raises:
            Refused: it is no ordinary file, or behind a link that may not be followed.
            InvalidInput: it is no text.
        """
        return self.text_of(self.enclosure.read(self.path))

    def text_of(self, data: bytes | None) -> str | None:
        """Return the text that its bytes are.

        Raises:
            InvalidInput: they are none.
        """
        try:
            return None if data is None else data.decode()
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

    def has_one_of(self, words: Sequence[str]) -> bool:
        """Whether its text, as far as it is understood, has one of these words."""
        try:
            text = self.read() or ""
        except AckbusError:  # changing or checking the file reports it
            return False
        return any(each in text for each in words)

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
        """Return the text without the edits; None when there was no file before.

        What stood in their place before is there again.
        """
        if not text:
            return text
        mark, left = _split(text)
        there = replace(self, edits=[self._explained(e.found_in, left) for e in self.edits])
        taken = TakenOver(self.path).read()
        for before in (None, ""):
            if text == there.with_all(before) and not _given_back(taken):
                return before
        for edit in reversed(there.edits):
            entry = taken.get(edit.key)
            given = None if entry is None else _with_given_back(edit, left, entry)
            left = self._explained(edit.take, left) if given is None else given
        return mark + left

    def notes_with(self, before: str | None, after: str) -> dict[str, Entry]:
        """Return the notes of what was taken over, when the edits make one text of another."""
        noted = TakenOver(self.path).read()
        _, old = _split(before or "")
        _, new = _split(after)
        for edit in self.edits:
            there, put = _slice(edit, old), _slice(edit, new)
            if put is None or (there == put and edit.key not in noted):
                continue
            known = noted.get(edit.key)
            is_ours = there is not None and known is not None and not known.is_back
            noted[edit.key] = Entry(known.before if known and is_ours else there)
        return noted

    def notes_without(self) -> dict[str, Entry]:
        """Return the notes after a removal: without entries that it takes out for good."""
        noted = TakenOver(self.path).read()
        for key in {edit.key for edit in self.edits} & noted.keys():
            before = noted.pop(key).before
            if before is not None:
                noted[key] = Entry(before, is_back=True)
        return noted

    def _explained(self, change: Callable[[str], T], text: str) -> T:
        try:
            return change(text)
        except AckbusError as error:
            raise type(error)(f"{self.path}: {error}; the file is left as it is") from error


def _slice(edit: Edit, text: str) -> str | None:
    """Return the text of our entry in a text, or None."""
    span = edit.span(text) if text else None
    return None if span is None else text[slice(*span)]


def _given_back(entries: Mapping[str, Entry]) -> bool:
    """Whether one of the entries took another's place."""
    return any(entry.before is not None for entry in entries.values())


def _with_given_back(edit: Edit, text: str, entry: Entry) -> str | None:
    """Return the text with what stood in an entry's place; None where it does not fit there."""
    span = edit.span(text)
    if span is None or entry.before is None:
        return None
    if entry.is_back:
        return text
    given = text[: span[0]] + entry.before + text[span[1] :]
    try:
        return given if _slice(edit, given) == entry.before else None
    except AckbusError:  # what is around it is another than it was
        return None


def _split(text: str) -> tuple[str, str]:
    """Return the byte order mark, if there is one, and the text behind it."""
    return text[: text.startswith(_BYTE_ORDER_MARK)], text.removeprefix(_BYTE_ORDER_MARK)


@dataclass(frozen=True)
class Change:
    """A change of a file; None stands for no file.

    Attributes:
        file: the file; empty folders are removed within its enclosure.
        before, after: its text.
        notes: what the change takes over from a person, and did before.
    """

    file: ConfigFile
    before: str | None
    after: str | None
    notes: Mapping[str, Entry] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.file.path

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
        with self.file.enclosure.spot(self.path) as spot:
            found = None if spot.folder is None else spot.look()
        if found is not None and not found.st_mode & _WRITABLE:
            raise Refused(f"{self.path} is read-only; it is left as it is")

    def apply(self) -> None:
        """Replace the old text by the new one, unless the file has changed meanwhile.

        Raises:
            Refused: the file has changed since it was read, or can't be written.
        """
        try:
            make = None if self.after is None else _FOLDER_MODE
            with self.file.enclosure.spot(self.path, make=make) as spot:
                self._apply(spot)
        except OSError as error:
            raise Refused(f"{self.path} can't be written: {error.strerror}") from error
        if self.after is None:
            self._remove_empty_folders(os.path.dirname(self.path))

    def _apply(self, spot: Spot) -> None:
        if self.file.text_of(None if spot.folder is None else spot.read()) != self.before:
            raise Refused(f"{self.path} has just been changed by another program; try again")
        taken = TakenOver(self.path)
        earlier = taken.read()
        try:
            taken.write(self.notes)
        except OSError as error:
            if _given_back(self.notes):  # else nothing would be lost
                told = f"no note of {self.path} can be kept, to give it back: {error.strerror}"
                raise Refused(told) from error
        try:
            if self.after is None:
                spot.remove()
            else:
                spot.replace(self.after.encode())
        except OSError:
            with suppress(OSError):
                taken.write(earlier)
            raise

    def _remove_empty_folders(self, folder: str) -> None:
        enclosure = self.file.enclosure
        with suppress(OSError, Refused):  # it has other files
            while folder.startswith(os.path.join(enclosure.root, "")):
                enclosure.remove_empty_folder(folder)
                folder = os.path.dirname(folder)
