"""The notes of what stood in a file of another program where setup put an entry of ours.

By them `--remove` gives an entry back that a person had made, and setup took over as its own. They
are the user's, outside of every project: a bus may go before its setup does.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from ..schema.directory.enclosure import Enclosure
from ..schema.directory.layout import config_directory
from ..schema.errors import InvalidInput


@dataclass(frozen=True)
class Entry:
    """An entry that setup put into a file, or gave back.

    Attributes:
        before: the text that stood in its place; None: nothing did.
        is_back: whether that stands there again, as its person's own.
    """

    before: str | None
    is_back: bool = False


class TakenOver:
    """The note of one file.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self._of = os.path.realpath(path)
        name = hashlib.sha256(os.fsencode(self._of)).hexdigest()[:32]
        self._name = f"{name}.json"

    @property
    def _path(self) -> str:
        return os.path.join(config_directory(), "setup", self._name)

    def read(self) -> dict[str, Entry]:
        """Return the entries by their keys; none where there is no note.

        Raises:
            InvalidInput: the note can't be understood.
        """
        try:
            with open(self._path, encoding="utf-8") as file:
                entries = json.load(file)["entries"]
            return {key: Entry(**entry) for key, entry in entries.items()}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(
                f"{self._path} is no note of 'bus setup'; move it away, and try again"
            ) from error

    def write(self, entries: Mapping[str, Entry]) -> None:
        """Replace the note; without entries there is none.

        Raises:
            OSError: it can't be written.
        """
        if not entries:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(self._path)
            folder = os.path.dirname(self._path)
            with suppress(OSError):  # there are other notes, or keys
                os.rmdir(folder)
                os.rmdir(os.path.dirname(folder))
            return
        told = {"file": self._of, "entries": {key: asdict(each) for key, each in entries.items()}}
        text = json.dumps(told, indent=2, ensure_ascii=False)
        os.makedirs(config_directory(), mode=0o700, exist_ok=True)
        own = Enclosure(config_directory(), is_home=True)
        with own.spot(self._path, make=0o700) as spot:
            spot.replace(text.encode())
