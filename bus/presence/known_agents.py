"""The agents that the bus knows, to tell a mistyped recipient from a real one."""

from __future__ import annotations

from ...schema.errors import UnknownRecipient, stands_for_several
from ...schema.message.names import check_recipient
from ..statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.engine import Engine
    from ..log.catalog import Catalog
    from ..log.log import Log

#: How many similar names a warning offers.
_NEAREST = 3


class Agents:
    """The agents that the bus has seen act: they acknowledged, beat their heart, or sent."""

    def __init__(self, engine: Engine, log: Log, catalog: Catalog) -> None:
        self._engine = engine
        self._log = log
        self._catalog = catalog
        # Answers that stay right: once known, an agent is known for ever; a stranger is worth
        # one warning from each process.
        self._known: set[str] = set()
        self._warned: set[str] = set()

    def names(self) -> list[str]:
        """Return the names of all known agents, sorted."""
        self._catalog.catch_up(self._log.newest_seq())
        return self.recorded()

    def recorded(self) -> list[str]:
        """Return the known names as of the last count; newer messages are not counted."""
        return [name for (name,) in self._engine.rows(SQL["known_agents"])]

    def knows(self, agent: str) -> bool:
        """Whether the bus has seen this agent act."""
        if agent not in self._known:
            if not self._is_recorded(agent):
                self._catalog.catch_up(self._log.newest_seq())
                if not self._is_recorded(agent):
                    return False
            self._known.add(agent)
        return True

    def check_recipient(
        self, agent: str, *, strict: bool = False, repeat: bool = True
    ) -> UnknownRecipient | None:
        """Return a warning before a message is sent to an unknown agent, or None.

        Args:
            agent: the recipient.
            strict: refuse one that the bus has never seen.
            repeat: whether to repeat a warning that this process has had before.

        Raises:
            InvalidInput: it is no name.
            UnknownRecipient: the bus has never seen it, and `strict`, or it means several, such as
                "all" and "ann,bob": no agent would read that inbox.
        """
        check_recipient(agent)
        is_refused = strict or stands_for_several(agent)
        stranger = self.stranger(agent, repeat=repeat or is_refused)
        if stranger is not None and is_refused:
            raise stranger
        return stranger

    def refuse_several(self, *names: str | None) -> None:
        """Refuse names that mean several; others cost nothing.

        Raises:
            UnknownRecipient: one does, and no agent has acted under it.
        """
        for name in names:
            if name is not None and stands_for_several(name):
                self.check_recipient(name)

    def stranger(self, agent: str, *, repeat: bool) -> UnknownRecipient | None:
        """Return the error for a recipient that the bus has never seen, else None.

        Args:
            agent: the recipient.
            repeat: whether to repeat an error that this process has had before.
        """
        if (agent in self._warned and not repeat) or self.knows(agent):
            return None
        import difflib  # slow to load, and only mistakes need it

        self._warned.add(agent)
        return UnknownRecipient(agent, difflib.get_close_matches(agent, self.names(), _NEAREST))

    def _is_recorded(self, agent: str) -> bool:
        return bool(self._engine.value(SQL["agent_is_known"], (agent,)))
