"""The bus in git's history: log."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ...git.history import Commit, Filters, traffic
from ...schema.directory.layout import BUS_DIR_VARIABLE
from ...schema.message.patterns import TypePattern
from ..definition import Commands, optional
from ..options.common import TYPE_HELP, Json, OfAgent, Verbose
from ..running.looking import looking
from ..show import output
from ..show.git_lines import readable

commands = Commands()

#: How many commits `bus log` shows of a history that has no beginning of its own.
LOG_COMMITS = 20

_FIELDS = ("hash", "short", "author", "date", "subject", "messages")

Revision = Annotated[
    str,
    typer.Argument(metavar="[REV|REV..REV]", help="Where to begin, or a range, as git log has it."),
]
Limit = Annotated[
    int | None,
    optional(
        "N", "At most so many commits. Default: all of a range, else 20.", "-n", "--limit", min=1
    ),
]
OneBus = Annotated[
    str | None,
    optional(
        "DIR",
        "Only of this bus directory. Default: $BUS_DIR, else every .worker-state/ of the "
        "repository.",
        "--dir",
    ),
]


@commands.command("log", example="bus log main..topic --agent alice")
@looking()
def log(
    revision: Revision = "HEAD",
    conversation: Annotated[
        str | None, optional("C", "Only this conversation: its first message's id.")
    ] = None,
    agent: OfAgent = None,
    type: Annotated[str | None, optional("P", TYPE_HELP, "--type")] = None,
    limit: Limit = None,
    json: Json = False,
    directory: OneBus = None,
    verbose: Verbose = False,
) -> int:
    """Print the messages that git commits added to bus.jsonl.

    The newest commit comes first. It reads only git's history, so it works in a clone without a
    bus, and in a bare one.
    """
    filters = Filters(conversation, agent, None if type is None else TypePattern(type))
    directory = directory or os.environ.get(BUS_DIR_VARIABLE)
    most = limit or (None if ".." in revision else LOG_COMMITS)
    found = traffic(
        directory or os.getcwd(), revision, everywhere=directory is None, filters=filters
    )
    count = 0
    for commit in found:
        if count == most:
            output.detail(f"there is more; see --limit {most * 10}")
            break
        if output.is_json():
            output.json_line({name: getattr(commit, name) for name in _FIELDS})
        else:
            _print(commit, first=count == 0)
        count += 1
    if not count and filters == Filters():
        output.note(f"no commit of {revision} added messages to a bus.jsonl")
    return 0 if count else output.NOTHING


def _print(commit: Commit, *, first: bool) -> None:
    if not first:
        output.line("")
    head = (commit.short, commit.date, commit.author, commit.subject)
    output.branch("", "  ".join(head), "yellow")
    for record in commit.messages:
        output.branch("  ", readable(record), "")
