"""Configuration files: read, changed as a whole, and put in their place at once."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import takewhile
from typing import TypeVar

from ..schema.directory.enclosure import EnclosedFile, Enclosure
from ..schema.errors import AckbusError, InvalidInput, Refused
from . import json_edits
from .abridging import Abridged, abridged_json, abridged_toml
from .edits import AbsentHook, Edit, JsonHook, JsonServer
from .record import PluginFile, Record, RecordedEntry, RecordFile
from .text_edits import TomlServer

# Unified diffs of two texts that differ in one place, however long they are.

#: How many lines before and after a change are shown.
_CONTEXT = 3

#: The numbers of lines at the head of a hunk.
_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@$")


def diff_of(before: str, after: str, old: str, new: str) -> list[str]:
    """Return the lines of a unified diff; only what is between equal ends is compared.

    Args:
        before, after: the texts.
        old, new: their names.
    """
    lines, others = before.splitlines(), after.splitlines()
    head = _common(lines, others)
    shown = max(0, head - _CONTEXT)
    tail = min(_common(lines[::-1], others[::-1]), min(len(lines), len(others)) - head)
    cut = max(0, tail - _CONTEXT)
    compared = (lines[shown : len(lines) - cut], others[shown : len(others) - cut])
    diff = difflib.unified_diff(*compared, old, new, n=_CONTEXT, lineterm="")
    return [_HUNK.sub(lambda hunk: _moved(hunk, shown), line) for line in diff]


def _common(lines: list[str], others: list[str]) -> int:
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(lines, others, strict=False))
    )


def _moved(hunk: re.Match[str], by: int) -> str:
    old, new = int(hunk[1]) + by, int(hunk[3]) + by
    return f"@@ -{old}{hunk[2] or ''} +{new}{hunk[4] or ''} @@"


T = TypeVar("T")

#: The bits of a mode that allow writing.
_WRITABLE = 0o222

#: The mode of a new folder, before the umask.
_FOLDER_MODE = 0o777

#: The longest file of a project, which may be a stranger's: to parse so much takes a second or two.
#: Files in a home have no limit: programs keep their histories in them.
MOST_PROJECT_BYTES = 1024 * 1024

#: Some editors put this before a text. Most programs skip it; the grammars of JSON and TOML don't.
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class ConfigFile:
    """One file, and what is put into it.

    Attributes:
        path: where it is.
        enclosure: the project or the home that it is in.
        edits: the edits, in order.
        extra_members: the further members that a new file needs, as JSON.
    """

    path: str
    enclosure: Enclosure
    edits: Sequence[Edit]
    extra_members: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_json(self) -> bool:
        """Whether the file is JSON."""
        return self.path.endswith((".json", ".jsonc"))

    def read(self) -> str | None:
        """Return its text, or None when it does not exist.

        Raises:
            Refused: it is no ordinary file, too long, or behind a link that may not be followed.
            InvalidInput: it is no text.
        """
        data = self.enclosure.read(self.path)
        if data is not None and len(data) > MOST_PROJECT_BYTES and not self.enclosure.is_home:
            raise Refused(
                f"{self.path} has more than {MOST_PROJECT_BYTES:,} bytes; put a shorter file there"
            )
        return self.text_of(data)

    def text_of(self, data: bytes | None) -> str | None:
        """Return the text of the file's bytes.

        Raises:
            InvalidInput: they are not UTF-8.
        """
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{self.path}: no UTF-8 text; left as it is") from error

    def server_words(self) -> list[str]:
        """Return the command line of the server as it stands; empty where none is understood."""
        try:
            text = self._abridged(self.read()).text
            servers = [edit for edit in self.edits if isinstance(edit, (JsonServer, TomlServer))]
            return next(filter(None, (server.words_in(text) for server in servers)), [])
        except AckbusError:  # changing or checking the file reports it
            return []

    def hook_commands(self) -> list[str]:
        """Return the command lines of the hooks as they stand; empty where none is understood."""
        try:
            text = self._abridged(self.read()).text
            hooks = [edit for edit in self.edits if isinstance(edit, (JsonHook, PluginFile))]
            return list(filter(None, (hook.command_in(text) for hook in hooks)))
        except AckbusError:  # changing or checking the file reports it
            return []

    def has_one_of(self, words: Sequence[str]) -> bool:
        """Whether its text has one of these words; False where it can't be read."""
        try:
            text = self.read() or ""
        except AckbusError:  # changing or checking the file reports it
            return False
        return any(word in text for word in words)

    def with_all(self, text: str | None) -> str:
        """Return the text with all edits; None: the file does not exist.

        Raises:
            Refused: a foreign entry stands in the place of one of ours.
        """
        abridged = self._abridged(text)
        self._check_ours(abridged.text)
        merged = abridged.whole(self._merged(abridged.text, is_new=text is None))
        return _split(text or "")[0] + merged

    def _merged(self, text: str, *, is_new: bool) -> str:
        """Return a text with all edits, and with a line end at the end if the file is new."""
        merged = text or ("{}" if self.is_json else "")
        for edit in self.edits:
            merged = self._with_path(edit.put, merged)
        if not text and self.is_json:
            merged = json.dumps(
                json.loads(merged) | self.extra_members, indent=2, ensure_ascii=False
            )
        return f"{merged}\n" if is_new else merged

    def _abridged(self, text: str | None) -> Abridged:
        """Return a text without its byte order mark, and without what the edits don't look at."""
        _, text = _split(text or "")
        if self.is_json:
            paths = frozenset(filter(None, map(_path_of, self.edits)))
            return self._with_path(lambda text: abridged_json(text, paths), text)
        tables = [edit.table for edit in self.edits if isinstance(edit, TomlServer)]
        if not tables:
            return Abridged(text)
        return self._with_path(lambda text: abridged_toml(text, tables[0]), text)

    def has_entries(self, text: str | None) -> bool:
        """Whether one of our entries stands in a text."""
        abridged = self._abridged(text).text
        return bool(abridged) and any(self._with_path(edit.span, abridged) for edit in self.edits)

    def without(self, text: str | None) -> str | None:
        """Return the text without the edits; None when there was no file before.

        Raises:
            Refused: a foreign entry stands in the place of one of ours.
        """
        if text is None or not self.has_entries(text):
            return text
        abridged = self._abridged(text)
        rest = abridged.text
        self._check_ours(rest)
        present_edits = [self._with_path(edit.found_in, rest) for edit in self.edits]
        for edit in reversed(present_edits):
            rest = self._with_path(edit.take, rest)
        return self._original(text, _split(text)[0], abridged.whole(rest))

    def removed_from(self, text: str | None) -> list[str]:
        """Return the texts of the entries that `without` takes out."""
        abridged = self._abridged(text).text
        entries = (_slice(edit, abridged) for edit in self.edits)
        return [entry for entry in entries if entry is not None]

    def is_plain(self, text: str | None) -> bool:
        """Whether setup could write our entries in a text again, as they are."""
        abridged = self._abridged(text).text
        return all(_is_plain(edit, abridged) for edit in self.edits)

    @cached_property
    def record(self) -> Record:
        """The record of what setup put into the file.

        Raises:
            InvalidInput: it can't be understood.
        """
        return RecordFile(self.path).read()

    def record_with(self, before: str | None) -> Record:
        """Return the record after the edits are made in a text; None: there is no file."""
        entries = dict(self.record.entries)
        origin = self.record.origin
        if not self.has_entries(before):
            origin = "none" if before is None else "text" if before.strip() else "empty"
        after = self._merged(self._abridged(before).text, is_new=before is None)
        for edit in self.edits:
            text = _slice(edit, after)
            if text is not None:
                entries[edit.key] = RecordedEntry(text)
        return Record(origin, entries)

    def record_without(self) -> Record:
        """Return the record after a removal: without entries that it takes out."""
        keys = {edit.key for edit in self.edits}
        entries = {key: entry for key, entry in self.record.entries.items() if key not in keys}
        return replace(self.record, entries=entries)

    def _original(self, text: str, bom: str, rest: str) -> str | None:
        """Return the file as before setup, if setup made it and nothing else is left in it."""
        origin = self.record.origin
        if origin == "unknown" and self.is_plain(text):  # a clone comes without the record
            abridged = self._abridged(text).text
            ours = replace(self, edits=[edit.found_in(abridged) for edit in self.edits])
            origin = "none" if text == ours._merged("", is_new=True) else "text"
        if origin in ("none", "empty") and self._is_empty(rest):
            return None if origin == "none" else bom
        return bom + rest

    def _is_empty(self, rest: str) -> bool:
        """Whether a text has only what a new file needs."""
        if not self.is_json:
            return not rest.strip()
        try:
            return _pruned(json.loads(rest or "{}")) in ({}, self.extra_members)
        except ValueError:  # it has comments
            return False

    def _check_ours(self, text: str) -> None:
        """Refuse a text that has a foreign entry in the place of one of ours.

        Raises:
            Refused: the text has such an entry.
        """
        for edit in self.edits:
            if text and not self._with_path(partial(self._is_ours, edit), text):
                raise Refused(f"{self.path}: {edit.refusal}; the file is left as it is")

    def _is_ours(self, edit: Edit, text: str) -> bool:
        entry_text, recorded = _slice(edit, text), self.record.entries.get(edit.key)
        if entry_text is None or (recorded is not None and recorded.written == entry_text):
            return True
        return edit.is_of_setup(text, additions_allowed=recorded is not None)

    def _with_path(self, change: Callable[[str], T], text: str) -> T:
        try:
            return change(text)
        except AckbusError as error:
            raise type(error)(f"{self.path}: {error}; the file is left as it is") from error


def _path_of(edit: Edit) -> json_edits.Path | None:
    """Return the path to the object or array of JSON that an entry is in."""
    if isinstance(edit, AbsentHook):
        return edit.hook.path
    if isinstance(edit, JsonHook):
        return edit.path
    return edit.within if isinstance(edit, JsonServer) else None


def _slice(edit: Edit, text: str) -> str | None:
    """Return the text of our entry in a text, or None."""
    span = edit.span(text) if text else None
    return None if span is None else text[slice(*span)]


def _pruned(value: object) -> object:
    """Return a JSON value without its empty members, at any depth."""
    if not isinstance(value, dict):
        return value
    pruned = {key: _pruned(member) for key, member in value.items()}
    return {key: member for key, member in pruned.items() if member not in ({}, [])}


def _is_plain(edit: Edit, text: str) -> bool:
    return _slice(edit, text) is None or edit.is_of_setup(text, additions_allowed=False)


def _split(text: str) -> tuple[str, str]:
    """Return the byte order mark, if there is one, and the text behind it."""
    rest = text.removeprefix(_BYTE_ORDER_MARK)
    return text[: len(text) - len(rest)], rest


@dataclass(frozen=True)
class ConfigChange:
    """A change of a file; None stands for no file.

    Attributes:
        file: the file; empty folders are removed within its enclosure.
        before, after: its text.
        record: the record of what setup put in, after the change.
        removed: the texts of the entries that it takes out; a copy of them is kept.
        is_lossless: whether setup could write all of them again.
    """

    file: ConfigFile
    before: str | None
    after: str | None
    record: Record
    removed: Sequence[str] = ()
    is_lossless: bool = True

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
        old, new = (os.devnull if text is None else self.path for text in (self.before, self.after))
        return diff_of(self.before or "", self.after or "", old, new)

    def check_allowed(self) -> None:
        """Refuse to change a file that is read-only, though the mode of its folder would allow it.

        Raises:
            Refused: the file is read-only.
        """
        with self.file.enclosure.spot(self.path) as spot:
            file_stat = None if spot.folder is None else spot.look()
        if file_stat is not None and not file_stat.st_mode & _WRITABLE:
            raise Refused(f"{self.path} is read-only; it is left as it is")

    def apply(self) -> str | None:
        """Replace the old text by the new one, unless the file has changed meanwhile.

        Returns:
            The path of the copy of what was taken out; None: there is none.

        Raises:
            Refused: the file has changed since it was read, or can't be written.
        """
        try:
            make = None if self.after is None else _FOLDER_MODE
            with self.file.enclosure.spot(self.path, make=make) as spot:
                copy = self._apply(spot)
        except OSError as error:
            raise Refused(f"{self.path} can't be written: {error.strerror}") from error
        if self.after is None:
            self._remove_empty_folders(os.path.dirname(self.path))
        return copy

    def _apply(self, spot: EnclosedFile) -> str | None:
        if self.file.text_of(None if spot.folder is None else spot.read()) != self.before:
            raise Refused(f"{self.path} has just been changed by another program; try again")
        records = RecordFile(self.path)
        earlier, copy = records.read(), None
        try:
            copy = records.keep(self.removed) if self.removed else None
            records.write(self.record)
        except (OSError, Refused) as error:
            if not self.is_lossless:
                why = error.strerror if isinstance(error, OSError) else str(error)
                says = f"no copy of what is taken out of {self.path} can be kept: {why}"
                raise Refused(says) from error
        try:
            if self.after is None:
                spot.remove()
            else:
                # A project's files are for all who work on it; a home's may hold secrets.
                is_project = not self.file.enclosure.is_home
                spot.replace(self.after.encode(), make=0o666 if is_project else 0o600)
        except OSError:
            with suppress(OSError):
                records.write(earlier)
            raise
        return copy

    def _remove_empty_folders(self, folder: str) -> None:
        enclosure = self.file.enclosure
        with suppress(OSError, Refused):  # it has other files
            while folder.startswith(os.path.join(enclosure.root, "")):
                enclosure.remove_empty_folder(folder)
                folder = os.path.dirname(folder)
