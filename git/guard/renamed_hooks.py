"""The guard's hooks of the first kind: at the place of earlier hooks, which they renamed."""

from __future__ import annotations

import os

from ...schema.directory.enclosure import Enclosure
from ...schema.errors import Refused
from ..text_file import FRESH
from .hook_scripts import GUARDED, is_marked

#: The ending of the name of an earlier hook; git runs no file of such a name.
_FORMER = ".before-guard"

#: The second line of such a hook of ours.
_MARK = "# The guard of ackbus: 'bus guard remove' takes it out and puts back what was here before."


class RenamedHooks:
    """The hooks of the first kind in a folder.

    Args:
        folder: where git looks without the guard.
        roots: the folders of the project, out of which no link may lead.
    """

    def __init__(self, folder: str, *roots: str) -> None:
        self._folder = folder
        self._roots = [root for root in roots if _is_below(folder, root)]
        #: Whether the folder serves other repositories too.
        self.are_shared = not self._roots

    def paths(self) -> list[str]:
        """Return where they are; an installation that was killed may have left some renamed."""
        return [
            path
            for path in map(self._path, GUARDED)
            if is_marked(path, _MARK)
            or (os.path.lexists(path + _FORMER) and not os.path.lexists(path))
        ]

    def check(self) -> None:
        """Refuse what is not to be undone without a person; nothing is changed.

        Raises:
            Refused: a hook has taken the place of one; another tool keeps one under another name;
                or a link leads out of the project.
        """
        for path in map(self._path, GUARDED):
            former = path + _FORMER
            if os.path.lexists(former) and os.path.lexists(path) and not is_marked(path, _MARK):
                raise Refused(
                    f"{path} is not a hook of the guard, and {former} is there as well;"
                    " make one of the two, without that ending"
                )
        names = os.listdir(self._folder) if os.path.isdir(self._folder) else []
        own = {*GUARDED, *(name + FRESH for name in GUARDED)}
        for path in (self._path(name) for name in names if name not in own):
            if is_marked(path, _MARK):
                raise Refused(
                    f"{path} is a hook of the guard that another tool has renamed and may run;"
                    " delete it first, or leave all as it is"
                )
        if self.paths():
            self._refuse_links()

    def undo(self) -> list[str]:
        """Put the earlier hooks back, and return where."""
        undone = self.paths()
        if undone:
            self._refuse_links()
        for path in undone:
            if os.path.lexists(path + _FORMER):
                os.replace(path + _FORMER, path)
            else:
                os.unlink(path)
        for path in (self._path(name) + FRESH for name in GUARDED):
            if is_marked(path, _MARK):
                os.unlink(path)
        return undone

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _refuse_links(self) -> None:
        for root in self._roots[:1]:
            with Enclosure(root).spot(self._path(GUARDED[0] + FRESH)):
                pass


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)
