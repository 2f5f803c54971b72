"""The agents that the bus knows, so that a mistyped recipient is noticed."""

from __future__ import annotations

from ...schema.errors import UnknownRecipient, names_no_agent
from ...schema.message.names import check_recipient, near_names
from ..statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.engine import Engine
    from ..log.catalog import Catalog
    from ..log.log import Log


class KnownAgents:
    """The agents that the bus has seen act: they acknowledged, beat their heart, or sent."""

    def __init__(self, engine: Engine, log: Log, catalog: Catalog) -> None:
        self._engine = engine
        self._log = log
        self._catalog = catalog
        # Both only grow: a known agent stays known, and each process warns once of a stranger.
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
            strict: refuse a recipient that the bus has never seen.
            repeat: whether to repeat a warning that this process has had before.

        Raises:
            InvalidInput: it is no name.
            UnknownRecipient: the bus has never seen it, and `strict`, or it means several, such as
                "all" and "ann,bob", or has spaces: no agent would read that inbox.
        """
        check_recipient(agent)
        is_refused = strict or names_no_agent(agent)
        stranger = self.stranger(agent, repeat=repeat or is_refused)
        if stranger is not None and is_refused:
            raise stranger
        return stranger

    def refuse_several(self, *names: str | None) -> None:
        """Refuse new agents whose names mean several, or have spaces; other names cost nothing.

        Raises:
            UnknownRecipient: a name is so, and no agent has acted under it.
        """
        for name in names:
            if name is not None and names_no_agent(name):
                self.check_recipient(name)

    def stranger(self, agent: str, *, repeat: bool) -> UnknownRecipient | None:
        """Return the error for a recipient that the bus has never seen, else None.

        Args:
            agent: the recipient.
            repeat: whether to repeat an error that this process has had before.
        """
        if (agent in self._warned and not repeat) or self.knows(agent):
            return None
        self._warned.add(agent)
        return UnknownRecipient(agent, near_names(agent, self.names()))

    def unseen(self, agent: str) -> UnknownRecipient | None:
        """Return what `stranger` returns, for those that only look: nothing is stored, or counted.

        Messages that were not counted yet are looked through, which takes longer.
        """
        if agent in self._known or self._is_recorded(agent):
            return None
        if self._log.has_sent(agent, after_seq=self._catalog.position()):
            return None
        return UnknownRecipient(agent, near_names(agent, self.recorded()))

    def _is_recorded(self, agent: str) -> bool:
        return bool(self._engine.value(SQL["agent_is_known"], (agent,)))
