"""Finding messages by the words in them."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer

from ..definition import Commands, optional
from ..logs import show_logs
from ..options.common import (
    HERE,
    OfAgent,
    OfConversation,
    Place,
    Since,
    TypePattern,
    conversation_named,
    since_time,
)
from ..show import output
from ..show.progress import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.search.search import Found

commands = Commands()

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="WORDS...",
        help="Words that must all occur. In quotes a phrase; with * at its end a beginning.",
    ),
]
Limit = Annotated[int | None, optional("N", "At most so many. Default: 20.", min=1)]


@commands.command("search", example="bus search 'disk full' timeout --since 2d")
def search(
    words: Words,
    type: TypePattern = None,
    agent: OfAgent = None,
    conversation: OfConversation = None,
    since: Since = None,
    limit: Limit = None,
    place: Place = HERE,
) -> int:
    """Print the messages with all these words, the best first.

    Payloads are searched, not types or names: 'bus read' filters by those. Large payloads are
    searched too, up to 100,000 characters of each. The index is kept beside the bus, in search.db,
    and brought up to date first; publishers don't wait for it. Of more than 1,000 messages that
    have all the words, the newest 1,000 are rated first.
    """
    from ...bus.search.search import SEARCH_LIMIT, Search

    show_logs()
    with place.open() as bus:
        finder = Search(bus)
        behind = finder.behind()
        indexed = bus.log.newest_seq() - behind
        with progress("indexing", behind) as move:
            found = finder.find(
                words,
                type=type,
                agent=agent,
                conversation=conversation and conversation_named(bus, conversation),
                since_ms=None if since is None else since_time(since, bus.now_ms()),
                limit=SEARCH_LIMIT if limit is None else limit,
                on_progress=lambda seq: move(seq - indexed),
            )
        for each in found:
            if output.is_json():
                output.json_line(_record(each))
            else:
                output.found(each, bus.blobs)
    if not found:
        output.detail("nothing found")
    return 0 if found else output.NOTHING


def _record(found: Found) -> dict[str, object]:
    record: dict[str, object] = orjson.loads(found.message.to_line())
    return record | {"snippet": found.snippet, "marks": found.marks}
