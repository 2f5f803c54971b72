"""The directory of a run, which is removed when all went well."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass

from ..schema.errors import InvalidInput, Refused


@dataclass(frozen=True, slots=True)
class Place:
    """A directory for a run.

    Attributes:
        directory: the directory.
        made: whether it was made for the run.
    """

    directory: str
    made: bool

    @property
    def bus(self) -> str:
        """The bus."""
        return os.path.join(self.directory, "bus")

    @property
    def histories(self) -> str:
        """The folder of the histories."""
        return os.path.join(self.directory, "histories")

    @property
    def errors(self) -> str:
        """The file with the output of the processes."""
        return os.path.join(self.directory, "errors.txt")

    @property
    def exported(self) -> str:
        """The folder of the exported files that are compared with a rebuild."""
        return os.path.join(self.directory, "exported")

    def remove(self) -> None:
        """Remove the files of the run, and nothing else."""
        for path in (self.bus, self.histories, self.exported):
            shutil.rmtree(path, ignore_errors=True)
        if os.path.exists(self.errors):
            os.unlink(self.errors)
        if self.made:
            os.rmdir(self.directory)


def choose_place(directory: str | None) -> Place:
    """Return the place of the run; None makes a directory in the working directory.

    Raises:
        Refused: something is in it, which might be a bus that is in use.
        InvalidInput: it can't be made.
    """
    try:
        if directory is None:
            made = tempfile.mkdtemp(prefix="bus-torture-", dir=os.getcwd())
            return Place(made, made=True)
        real = os.path.realpath(directory)
        there = os.path.exists(real)
        os.makedirs(real, mode=0o700, exist_ok=True)
        if os.listdir(real):
            raise Refused(
                f"{directory} is not empty, and the torture takes a directory of its own;"
                " name one that is empty, or not there yet"
            )
        return Place(real, made=not there)
    except OSError as error:
        raise InvalidInput(f"can't use {directory or '.'}: {error.strerror}") from error
