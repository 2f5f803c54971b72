"""The records of what setup put into the files of other programs, and copies of what it took.

By them `--remove` knows what is its own, whatever was changed since: the entries, and the files
that it made. They are the user's, outside of every project: a bus may go before its setup does.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Literal

from ..schema.directory.enclosure import Enclosure
from ..schema.directory.layout import config_directory
from ..schema.errors import InvalidInput

#: The states of a file before setup: none, with nothing in it, with something, or not known.
Origin = Literal["none", "empty", "text", "unknown"]

#: How many copies of what was taken out are kept.
_MOST_COPIES = 100

#: How many digits the number of a copy has: by their names they are in their order.
_DIGITS = 8


@dataclass(frozen=True)
class Entry:
    """An entry that setup put into a file.

    Attributes:
        written: its text, as setup left it.
    """

    written: str


@dataclass(frozen=True)
class Record:
    """The record of one file.

    Attributes:
        origin: what was there before setup.
        entries: what setup put in, by its keys.
    """

    origin: Origin = "unknown"
    entries: Mapping[str, Entry] = field(default_factory=dict)


class RecordFile:
    """The place of the record of one file.

    Args:
        path: the file that the record is of.
    """

    def __init__(self, path: str) -> None:
        self._of = os.path.realpath(path)
        name = hashlib.sha256(os.fsencode(self._of)).hexdigest()[:32]
        self._path = os.path.join(_folder(), f"{name}.json")

    def read(self) -> Record:
        """Return the record; an empty one where there is none.

        Raises:
            InvalidInput: the record can't be understood.
        """
        try:
            with open(self._path, encoding="utf-8") as file:
                kept = json.load(file)
            entries = {key: Entry(entry["written"]) for key, entry in kept["entries"].items()}
            return Record(kept["origin"], entries)
        except (FileNotFoundError, NotADirectoryError):
            return Record()
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(
                f"{self._path} is no note of 'bus setup'; move it away, and try again"
            ) from error

    def write(self, record: Record) -> None:
        """Replace the record; one without entries is removed.

        Raises:
            OSError: it can't be written.
        """
        if record.entries:
            entries = {key: asdict(entry) for key, entry in record.entries.items()}
            _write(self._path, {"file": self._of, "origin": record.origin, "entries": entries})
            return
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self._path)
        with suppress(OSError):  # there are other records, or keys
            os.rmdir(_folder())
            os.rmdir(config_directory())

    def keep(self, texts: Sequence[str]) -> str:
        """Keep a copy of what is taken out of the file, and return where that is.

        Raises:
            OSError: it can't be written.
        """
        kept = sorted(os.listdir(_copies())) if os.path.isdir(_copies()) else []
        number = 1 + max(
            (int(name[:_DIGITS]) for name in kept if name[:_DIGITS].isdigit()), default=0
        )
        name = os.path.basename(self._of)
        path = os.path.join(_copies(), f"{number:0{_DIGITS}}-{name}.json")
        _write(path, {"file": self._of, "removed": list(texts)})
        for old in kept[: max(0, len(kept) + 1 - _MOST_COPIES)]:
            with suppress(OSError):
                os.unlink(os.path.join(_copies(), old))
        return path


def _folder() -> str:
    return os.path.join(config_directory(), "setup")


def _copies() -> str:
    return os.path.join(_folder(), "removed")


def _write(path: str, value: object) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    os.makedirs(config_directory(), mode=0o700, exist_ok=True)
    own = Enclosure(config_directory(), is_home=True)
    with own.spot(path, make=0o700) as spot:
        spot.replace(text.encode())
