"""All tools and resources that agents are offered, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mcp.shared.uri_template import UriTemplate
from pydantic import BaseModel

from ....schema.errors import NotFound
from ....subscribers.inboxes.session import inbox_of
from ..session import McpSession
from . import inbox, messages, presence, work
from .common import MAX_PAGE, Cursor, MessagesResult, Pager, by_the_same_call
from .inbox import waiting
from .messages import thread
from .presence import agents
from .profiles import PROFILES
from .tool import Tool

# Resources: pages that a person, or an agent's program, reads without a tool.

#: The media type of every resource.
JSON = "application/json"


@dataclass(frozen=True)
class ResourceKind:
    """A kind of resource.

    Attributes:
        template: its address; without variables it is one resource.
        name, about: what it is.
        read: returns it, given what stands in the address in place of the variable.
    """

    template: str
    name: str
    about: str
    read: Callable[[McpSession, str], BaseModel]

    @property
    def is_one(self) -> bool:
        """Whether this is a single resource, not a template."""
        return not UriTemplate.is_template(self.template)

    def values(self, uri: str) -> list[str] | None:
        """Return what an address has in place of the variable; None: it is of another kind."""
        if self.is_one:
            return [""] if uri == self.template else None
        match = UriTemplate.parse(self.template).match(uri)
        return None if match is None else [str(value) for value in match.values()]


def _inbox(session: McpSession, agent: str) -> BaseModel:
    inbox = inbox_of(session.bus, session.own(agent))
    pager = Pager(session.room, lambda page: MessagesResult.of(page).reply(""), by_the_same_call)
    return pager.page(waiting(inbox, Cursor(), None), Cursor(), MAX_PAGE)[0].record


def _conversation(session: McpSession, key: str) -> BaseModel:
    return thread(session, key, MAX_PAGE, None)[0].record


KINDS = (
    ResourceKind(
        "bus://agents", "agents", "The agents.", lambda session, _: agents(session).record
    ),
    ResourceKind(
        "bus://inbox/{agent}", "inbox", "What waits for an agent. Reading changes nothing.", _inbox
    ),
    ResourceKind(
        "bus://conversation/{id}", "conversation", "The messages of a conversation.", _conversation
    ),
)


def read(session: McpSession, uri: str) -> str:
    """Return a resource as JSON.

    Raises:
        NotFound: there is none of this address.
    """
    kind = kind_of(uri)
    return _json(kind.read(session, *kind.values(uri) or ()))


def kind_of(uri: str) -> ResourceKind:
    """Return the kind of the resource that has an address.

    Raises:
        NotFound: there is none.
    """
    for kind in KINDS:
        if kind.values(uri) is not None:
            return kind
    templates = ", ".join(kind.template for kind in KINDS)
    raise NotFound(f"no resource {uri[:200]!a}; there are {templates}")


def _json(record: BaseModel) -> str:
    return record.model_dump_json(exclude_none=True, by_alias=True)


# All tools, by name.

_ALL = {tool.name: tool for module in (inbox, messages, presence, work) for tool in module.TOOLS}


def tools_of(profile: str) -> Mapping[str, Tool]:
    """Return the tools of a profile, in the order in which they are listed."""
    return {name: _ALL[name] for name in PROFILES[profile]}
