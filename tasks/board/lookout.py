"""A look into the repositories of tasks, as far as git may be started in them."""

from __future__ import annotations

import os

from ...git.repository import GitFailed
from ...git.sealed import SealedRepository
from ...git.trusted import NotTrusted, TrustedRepositories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus


class Lookout:
    """Looks into the repositories of the tasks of a bus; nothing of a repository is run.

    Args:
        bus: an open bus.

    Attributes:
        not_looked_into: why it is not looked into a repository, by its name in the rows.
    """

    def __init__(self, bus: Bus) -> None:
        self._trusted = TrustedRepositories(bus.layout.directory)
        self.not_looked_into: dict[str, str] = {}

    def into(self, repository: str) -> SealedRepository | None:
        """Return a repository to look into; None where it is gone, or may not be looked into.

        Args:
            repository: as a row names it.

        Raises:
            GitFailed: git is not installed, or can't read it.
        """
        try:
            return self._trusted.sealed(repository)
        except NotTrusted as error:
            self.not_looked_into[repository] = str(error)
            return None
        except GitFailed:
            if os.path.isdir(repository):
                raise
            return None

    def problem(self) -> str | None:
        """Return why it is not looked into some repositories; None where there are none."""
        return "; ".join(self.not_looked_into.values()) or None
