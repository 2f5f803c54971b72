"""Hooks of the guard that git does not run any more: their path is absolute, and has moved."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..repository import Repository
from ..sealed import LOOKING, is_in_repository
from .hooks_path import FOLDER, OURS, SETTING

#: How long git may take for a question, in seconds: a file that it reads may be a pipe.
_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class MovedHooks:
    """The guard's hooks in a repository that was moved or copied.

    Attributes:
        named: where git looks for them, by `core.hooksPath`.
        own: where they would be.
    """

    named: str
    own: str

    def __str__(self) -> str:
        """Return what is wrong, in a line."""
        return (
            f"core.hooksPath names {self.named}, and the guard's hooks of this repository belong at"
            f" {self.own}: it was moved or copied, and none of its hooks runs"
        )


def moved_hooks(folder: str) -> MovedHooks | None:
    """Return hooks of the guard at another place than the setting names; None: all is well.

    Git reads its settings, and runs nothing; the place that is named is not looked at.

    Args:
        folder: in a repository; outside of all, there are none.

    Raises:
        GitFailed: git can't say.
    """
    if not is_in_repository(folder):
        return None
    repository = Repository(folder, LOOKING, limit_s=_LIMIT_S)
    names = f"^({SETTING}|{OURS})$".replace(".", "\\.").lower()
    said = repository.run(*("config", "--local", "--null", "--get-regexp", names), accepted=(0, 1))
    entries = (os.fsdecode(entry).partition("\n") for entry in said.split(b"\0")[:-1])
    found = {name: value for name, _, value in entries}
    named = found.get(SETTING.lower())
    if named is None or named != found.get(OURS.lower()):
        return None  # not the guard's
    common_dir = os.path.join(folder, repository.path("--git-common-dir"))
    own = os.path.join(os.path.realpath(common_dir), FOLDER)
    return None if named == own else MovedHooks(named, own)
