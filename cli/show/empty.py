"""The words for a person whose list is empty: what there is none of, and the next command."""

from __future__ import annotations

import itertools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_LOG = "message", "publish the first with 'bus publish note hello --from ann'"
_JOBS = "'bus queue list' shows the queues, whose messages are jobs"
_CONFIGURED = "it is written in the configuration; 'bus config show' prints that"
_SERVICE_RAN = "'bus plugin run' and 'bus schedule run' make jobs"

#: The lists that commands print, and the commands that make or show more of each.
LISTS: dict[str, tuple[str, str]] = {
    "poll": ("unread mail", "'bus poll --wait 60s' waits for some, 'bus tail' shows old messages"),
    "parked list": ("parked message", "'bus inbox' shows what else waits"),
    **dict.fromkeys(("read", "tail", "search", "replay", "inspect"), _LOG),
    "receipts": ("reader that it waits for", "'bus agents list' shows who reads"),
    "queue list": ("queue", "'bus queue create' makes one, 'bus run' makes one and works on it"),
    "job list": ("job", _JOBS),
    "dead list": ("dead job", "'bus job list' shows all jobs"),
    "limit list": ("limit", "'bus limit set' sets one"),
    "lease list": ("lease", "'bus lease acquire' takes one"),
    "agents list": ("agent", "whoever sends or reads becomes one: 'bus publish', 'bus listen'"),
    "task list": ("task", "'bus task add' adds one"),
    "task settle": ("task to settle", "'bus task list --all' shows all tasks"),
    "task clean": ("work tree to clean", "'bus task list --all' shows all tasks"),
    "task comments": ("comment", "'bus task comment' makes one"),
    "task diff": ("change that is committed", "'bus task show' says where the task is"),
    "task forecast": ("pair of branches that would conflict", "'bus task list' shows the tasks"),
    "reservations list": ("reservation", "'bus reserve' makes one"),
    "segments": ("archived segment", "'bus archive --help' says when there is one"),
    "key list": ("key", "'bus key create' makes one"),
    "token list": ("token", "'bus token create' makes one"),
    "trust list": ("trusted directory", "'bus trust add' trusts one"),
    "log": ("message of this repository's history", "'bus read' shows this bus"),
    "blob verify": ("blob", "'bus blob put' stores one"),
    "config diff": ("difference", "'bus config show' prints what is in force"),
    "plugin list": ("plugin", "'bus plugin add' copies one into the configuration"),
    "plugin facts": ("fact", "a plugin's results state them: 'bus plugin run'"),
    "automation plugins": ("plugin", "'bus plugin add' copies one into the configuration"),
    "automation queue": ("job", _SERVICE_RAN),
    "automation logs": ("attempt at a job", _SERVICE_RAN),
    "automation breaker": ("change of this breaker", "'bus automation logs' shows the jobs"),
    "route list": ("route", _CONFIGURED),
    "route test": ("route for this message", "'bus route list' shows the routes"),
    "pipeline list": ("pipeline", _CONFIGURED),
    "pipeline tree": ("job in this run", "'bus pipeline list' shows the pipelines"),
    "schedule list": ("schedule", _CONFIGURED),
    "schedule next": ("coming time", "'bus schedule list' shows the schedules"),
    "schedule history": ("decision", "'bus schedule next' shows when the next is due"),
    "schedule backfill": ("time in this range", "'bus schedule next' shows when it is due"),
    "webhook list": ("webhook", _CONFIGURED),
}

#: Options that choose nothing of a list.
_NO_FILTERS = frozenset(
    ("--dir", "--user", "--config", "--agent", "--keys", "--wait", "--window", "-v", "--verbose")
)


def words_for(arguments: Sequence[str]) -> str | None:
    """Return the line for a command that printed an empty list; None for one that lists nothing.

    Args:
        arguments: the command line, without `bus`.
    """
    words = list(itertools.takewhile(lambda word: not word.startswith("-"), arguments))
    names = (" ".join(words[:2]), " ".join((*words[:1], "list")), *words[:1])
    command = next((name for name in names if name in LISTS), None)
    if command is None:
        return None
    noun, next_step = LISTS[command]
    options = {word.partition("=")[0] for word in arguments if word.startswith("-")}
    if command == "search" or options - _NO_FILTERS:
        return f"no {noun} fits; {next_step}"
    return f"there is no {noun}; {next_step}"
