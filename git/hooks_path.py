"""The setting `core.hooksPath` of a repository: the guard's folder, with the earlier value kept."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..schema.errors import Refused
from .repository import CommandFailed, Repository
from .sealed import LOOKING, is_in_repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .work_tree import WorkTree

#: The name of the guard's folder, in the one that all work trees share.
FOLDER = "ackbus-hooks"

#: Where git looks for hooks. Beside it, what it is while the guard is installed, by which it is
#: still known to be ours where the repository has moved; and what it was before.
SETTING, OURS, _EARLIER = "core.hooksPath", "ackbus.guardHooks", "ackbus.earlierHooksPath"

#: The settings of a person and of the machine, over which the repository's own wins.
_BELOW = {"system", "global"}


class HooksPath:
    """The setting in the configuration that all work trees of a repository share.

    Attributes:
        own: the guard's folder.
    """

    def __init__(self, tree: WorkTree) -> None:
        self._tree = tree
        self._repository = Repository(tree.root)
        self.own = os.path.join(tree.common_dir, FOLDER)

    def is_ours(self) -> bool:
        """Whether the repository's own setting is the one that `set` has made."""
        local = self._own(SETTING)
        return local is not None and local == self._own(OURS)

    def earlier(self) -> str:
        """Return the folder where git would look without the guard.

        A relative one counts from the folder in which git runs the hook, as git has it.
        """
        name = _EARLIER if self.is_ours() else SETTING
        values = [value for scope, _, value in self._values(name) if scope not in _BELOW]
        if not values:
            values = [value for scope, _, value in self._values(SETTING) if scope in _BELOW]
        return values[-1] if values else os.path.join(self._tree.common_dir, "hooks")

    def check(self) -> None:
        """Refuse settings over which the repository's own would not win, or that can't be kept.

        Raises:
            Refused: there are some; the line says where.
        """
        config = os.path.join(self._tree.common_dir, "config")
        values = self._values(SETTING)
        if values and values[-1][0] not in _BELOW:
            _, origin, value = values[-1]
            path = os.path.join(self._tree.root, origin.removeprefix("file:"))
            if not origin.startswith("file:") or os.path.realpath(path) != os.path.realpath(config):
                raise Refused(
                    f"core.hooksPath is set by {origin}, which wins over {config}: set it there"
                    " instead, or nowhere"
                )
            if not value:
                raise Refused(
                    "core.hooksPath is empty: git would look for hooks at the root; unset it"
                )
        if len([scope for scope, *_ in values if scope == "local"]) > 1:
            raise Refused(f"{config} has several values of core.hooksPath: leave one of them")

    def set(self) -> None:
        """Name the guard's folder to git, and keep the repository's own earlier value."""
        if not self.is_ours():
            self._write(_EARLIER, self._own(SETTING))
        self._write(OURS, self.own)
        self._write(SETTING, self.own)

    def restore(self) -> None:
        """Put the earlier value back; one that somebody has set since stays."""
        if self.is_ours():
            self._write(SETTING, self._own(_EARLIER))
        for name in (_EARLIER, OURS):
            self._write(name, None)

    def _own(self, name: str) -> str | None:
        """Return the last value in the repository's own file, as it stands there."""
        try:
            value = self._repository.run("config", "--local", "--null", "--get", name)
        except CommandFailed:
            return None
        return os.fsdecode(value[:-1])

    def _values(self, name: str) -> list[tuple[str, str, str]]:
        """Return scope, origin and value of each setting; of several the last one counts."""
        words = ("--show-scope", "--show-origin", "--null", "--type=path", "--get-all", name)
        try:
            fields = os.fsdecode(self._repository.run("config", *words)).split("\0")
        except CommandFailed as error:
            if error.code == 1:  # there is none
                return []
            raise
        return list(zip(fields[0:-1:3], fields[1:-1:3], fields[2:-1:3], strict=True))

    def _write(self, name: str, value: str | None) -> None:
        if value is not None:
            self._repository.run("config", "--local", name, value)
        elif self._own(name) is not None:
            self._repository.run("config", "--local", "--unset", name)


# Hooks of the guard that git does not run any more: their path is absolute, and has moved.

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
    output = repository.run(
        *("config", "--local", "--null", "--get-regexp", names), accepted=(0, 1)
    )
    entries = (os.fsdecode(entry).partition("\n") for entry in output.split(b"\0")[:-1])
    settings = {name: value for name, _, value in entries}
    named = settings.get(SETTING.lower())
    if named is None or named != settings.get(OURS.lower()):
        return None  # not the guard's
    common_dir = os.path.join(folder, repository.path("--git-common-dir"))
    own = os.path.join(os.path.realpath(common_dir), FOLDER)
    return None if named == own else MovedHooks(named, own)
