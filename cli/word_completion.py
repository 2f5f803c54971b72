"""Completion of the word that is being typed: commands, options, and names in the bus.

A person waits with a finger on the Tab key, so values come from the bus's counters and its newest
messages, which are not updated for it. Without a bus, or after an error, nothing is offered.
"""

from __future__ import annotations

from contextlib import suppress

# typer's own parser has no public name for these; pyproject.toml pins the minor version.
from typer._click.shell_completion import CompletionItem, split_arg_string
from typer._completion_classes import BashComplete

from ..bus.local_bus import LocalBus
from ..bus.log.catalog import Catalog
from ..schema.directory.layout import user_bus
from ..schema.errors import AckbusError
from ..schema.message.draft import PRIORITY_NAMES
from ..schema.message.names import MAX_SEQ
from ..subscribers.jobs.jobs import DEAD, STATES
from ..subscribers.queues.queues import Queues
from ..subscribers.views import Views
from .show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Values = Callable[[LocalBus], Iterable[str]]

#: The newest messages whose names are offered besides those that have been counted.
_NEWEST = 500

#: How many values are offered at most.
_MAX_OFFERED = 500

#: How long SQLite may wait for a lock, in seconds.
_LOCK_TIMEOUT_S = 0.1

#: How many jobs of each queue are offered, and up to which seq.
_SEQS = (50, MAX_SEQ)

#: Each script offers files where `bus completion words` fails: the word is no name of the bus.
BASH = """\
_bus() {
    local typed=${COMP_LINE:0:COMP_POINT} word kept found
    word=${typed##*[[:space:]]}
    kept=${word%"${word##*[:=]}"}  # bash takes what is before : and = for words of their own
    COMPREPLY=()
    found=$(bus completion words -- "$typed" 2>/dev/null) || return
    compopt +o default
    while IFS= read -r word; do
        [[ $word ]] || continue
        printf -v word %q "$word"
        COMPREPLY+=("${word#"$kept"}")
    done <<< "$found"
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -o default -F _bus bus
"""

ZSH = """\
#compdef bus
_bus() {
    local text
    local -a found
    text=$(bus completion words -- "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null) ||
        { _files; return }
    found=("${(@f)text}")
    found=(${found:#})
    if (( $#found )); then compadd -a found; fi
}
compdef _bus bus
"""

FISH = """\
function __bus_words
    bus completion words -- (commandline -cp) 2>/dev/null
    or __fish_complete_path (commandline -ct)
end
complete -c bus -f -a '(__bus_words)'
"""


def words(command: Any, line: str) -> list[str] | None:
    """Return the completions of the last word of a command line; None where it may be a file.

    Args:
        command: the whole program.
        line: the line up to the cursor, with the name of the program.
    """
    typed = split_arg_string(line)
    last = typed.pop() if typed and not line[-1].isspace() else ""
    if not typed:  # it is the name of the program that is being typed
        return None
    option, equals, _ = last.partition("=")
    before = option + equals if option.startswith("-") and equals else ""
    asked: list[Values] = []
    _set_completers(command, asked)
    completions = BashComplete(command, {"obj": Output()}, "bus", "").get_completions(
        typed[1:], last
    )
    offered = [before + item.value for item in completions if item.value.isprintable()]
    return offered if offered or asked else None


def _set_completers(command: Any, asked: list[Values], path: str = "") -> None:
    """Set the completer of every parameter that has known values; it notes that it was asked."""
    for name, inner in getattr(command, "commands", {}).items():
        _set_completers(inner, asked, f"{path} {name}".lstrip())
    for parameter in command.params:
        values = _values_of(parameter, path)
        if values is not None:
            parameter._custom_shell_complete = _completer(values, asked)


def _values_of(parameter: Any, path: str) -> Values | None:
    if parameter.param_type_name == "option":
        return next((_OPTIONS[option] for option in parameter.opts if option in _OPTIONS), None)
    name = (parameter.metavar or "").strip("[].")
    group = path.partition(" ")[0]
    return _ARGUMENTS.get(name) or _NAMES.get((path, name)) or _NAMES.get((group, name))


def _completer(values: Values, asked: list[Values]) -> Callable[[Any, Any, str], list[Any]]:
    def complete(context: Any, parameter: Any, incomplete: str) -> list[Any]:
        asked.append(values)
        names: list[str] = []
        with suppress(AckbusError, OSError), _open(context.params) as bus:
            names = sorted(
                {name for name in values(bus) if name.startswith(incomplete)}, key=_place
            )
        return [CompletionItem(name) for name in names[:_MAX_OFFERED]]

    return complete


def _place(value: str) -> tuple[int, str]:
    return (len(value) if value.isdecimal() else 0, value)  # 2 before 10


def _open(parameters: dict[str, Any]) -> LocalBus:
    directory = user_bus() if parameters.get("user") else parameters.get("directory")
    return LocalBus.open(directory, write_timeout_s=_LOCK_TIMEOUT_S)


def _agents(bus: LocalBus) -> Iterable[str]:
    newest = (message.from_agent for message in bus.log.newest(_NEWEST))
    return [*bus.agents.recorded(), *bus.log.recipients(), *newest]


def _types(bus: LocalBus) -> Iterable[str]:
    newest = (message.type for message in bus.log.newest(_NEWEST))
    return [*Catalog.of(bus).counts("type"), *newest]


def _queues(bus: LocalBus) -> Iterable[str]:
    return [queue.name for queue in Queues(bus).list()]


def _jobs(bus: LocalBus) -> Iterable[str]:
    views = Views.of(bus)
    queues = Queues(bus).list()
    return [str(job.seq) for queue in queues for job in views.jobs(queue, "jobs_newest", *_SEQS)]


def _dead(bus: LocalBus) -> Iterable[str]:
    views = Views.of(bus)
    of_state = ("jobs_newest_ended_badly", *_SEQS, DEAD)
    return [str(job.seq) for queue in Queues(bus).list() for job in views.jobs(queue, *of_state)]


def _no_names(bus: LocalBus) -> Iterable[str]:
    return ()


def _leases(bus: LocalBus) -> Iterable[str]:
    return [lease.name for lease in bus.leases.list()]


#: The values of an option, wherever it stands.
_OPTIONS: dict[str, Values] = {
    "--agent": _agents,
    "--from": _agents,
    "--inbox": _agents,
    "--to": _agents,
    "--type": _types,
    "--queue": _queues,
    "--priority": lambda bus: PRIORITY_NAMES,
    "--state": lambda bus: STATES,
}

#: The values of an argument, by its name in help.
_ARGUMENTS: dict[str, Values] = {"AGENT": _agents, "TYPE": _types}

#: The values of an argument whose name means another thing in each group, or in a command of it.
_NAMES: dict[tuple[str, str], Values] = {
    ("queue", "NAME"): _queues,
    ("queue create", "NAME"): _no_names,
    ("lease", "NAME"): _leases,
    ("job", "SEQ"): _jobs,
    ("dead", "SEQ"): _dead,
}
