"""Finding messages by the words in them."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer

from ..definition import Commands, optional
from ..logs import show_logs
from ..options.common import HERE, Place
from ..options.filters import UNFILTERED, Filter
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
Newest = Annotated[bool, typer.Option("--newest", help="The newest first, not the best.")]


@commands.command("search", example="bus search 'disk full' timeout --since 2d")
def search(
    words: Words,
    filter: Filter = UNFILTERED,
    limit: Limit = None,
    newest: Newest = False,
    place: Place = HERE,
) -> int:
    """Print the messages with all these words, the best first.

    Payloads are searched, not types or names. Large payloads are
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
                limit=SEARCH_LIMIT if limit is None else limit,
                by_age=newest,
                on_progress=lambda seq: move(seq - indexed),
                **filter.filters(bus),
            )
        for each in found:
            if output.is_json():
                output.json_line(_record(each))
            else:
                output.found(each, bus.blobs)
        return 0 if found else filter.nothing(bus)


def _record(found: Found) -> dict[str, object]:
    record: dict[str, object] = orjson.loads(found.message.to_line())
    return record | {"snippet": found.snippet, "marks": found.marks}
