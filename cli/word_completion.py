"""Completion of the word that is being typed: commands, options, and names in the bus.

A person waits with a finger on the Tab key, so values come from the bus's counters and its newest
messages, which are not updated for it. Without a bus, or after an error, nothing is offered.
"""

from __future__ import annotations

from contextlib import suppress

# typer's own parser has no public name for these; pyproject.toml pins the minor version.
from typer._click.shell_completion import CompletionItem, split_arg_string
from typer._completion_classes import BashComplete

from ..bus.bus import Bus
from ..bus.log.catalog import Catalog
from ..schema.directory.layout import user_bus
from ..schema.errors import AckbusError
from ..schema.message.priority import PRIORITY_NAMES
from ..subscribers.jobs.jobs import STATES
from ..subscribers.queues.queues import Queues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Values = Callable[[Bus], Iterable[str]]

#: The newest messages whose names are offered besides those that have been counted.
_NEWEST = 500

#: How many values are offered at most.
_MAX_OFFERED = 500

#: How long SQLite may wait for a lock, in seconds.
_PATIENCE_S = 0.1

BASH = """\
_bus() {
    local typed=${COMP_LINE:0:COMP_POINT} word kept
    word=${typed##*[[:space:]]}
    kept=${word%"${word##*[:=]}"}  # bash takes what is before : and = for words of their own
    COMPREPLY=()
    while IFS= read -r word; do
        printf -v word %q "$word"
        COMPREPLY+=("${word#"$kept"}")
    done < <(bus completion words -- "$typed" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -o default -F _bus bus
"""

ZSH = """\
#compdef bus
_bus() {
    local -a found
    found=("${(@f)$(bus completion words -- "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}")
    found=(${found:#})
    if (( $#found )); then compadd -a found; else _files; fi
}
compdef _bus bus
"""

FISH = """\
function __bus_words
    bus completion words -- (commandline -cp) 2>/dev/null
end
complete -c bus -a '(__bus_words)'
"""


def words(command: Any, line: str) -> list[str]:
    """Return the completions of the last word of a command line.

    Args:
        command: the whole program.
        line: the line up to the cursor, with the name of the program.
    """
    typed = split_arg_string(line)
    last = typed.pop() if typed and not line[-1].isspace() else ""
    if not typed:  # it is the name of the program that is being typed
        return []
    option, equals, _ = last.partition("=")
    before = option + equals if option.startswith("-") and equals else ""
    _teach(command)
    found = BashComplete(command, {}, "bus", "").get_completions(typed[1:], last)
    return [before + item.value for item in found if item.value.isprintable()]


def _teach(command: Any, group: str = "") -> None:
    """Set the completer of every parameter that has known values."""
    for name, inner in getattr(command, "commands", {}).items():
        _teach(inner, group or name)
    for parameter in command.params:
        values = _values_of(parameter, group)
        if values is not None:
            parameter._custom_shell_complete = _completer(values)


def _values_of(parameter: Any, group: str) -> Values | None:
    if parameter.param_type_name == "option":
        return next((_OPTIONS[each] for each in parameter.opts if each in _OPTIONS), None)
    name = (parameter.metavar or "").strip("[]")
    return _NAMES.get(group) if name == "NAME" else _ARGUMENTS.get(name)


def _completer(values: Values) -> Callable[[Any, Any, str], list[Any]]:
    def complete(context: Any, parameter: Any, incomplete: str) -> list[Any]:
        found: list[str] = []
        with suppress(AckbusError, OSError), _open(context.params) as bus:
            found = sorted({each for each in values(bus) if each.startswith(incomplete)})
        return [CompletionItem(each) for each in found[:_MAX_OFFERED]]

    return complete


def _open(given: dict[str, Any]) -> Bus:
    directory = user_bus() if given.get("user") else given.get("directory")
    return Bus.open(directory, write_timeout_s=_PATIENCE_S)


def _agents(bus: Bus) -> Iterable[str]:
    newest = (message.from_agent for message in bus.log.newest(_NEWEST))
    return [*bus.agents.recorded(), *bus.log.recipients(), *newest]


def _types(bus: Bus) -> Iterable[str]:
    newest = (message.type for message in bus.log.newest(_NEWEST))
    return [*Catalog.of(bus).counts("type"), *newest]


def _queues(bus: Bus) -> Iterable[str]:
    return [queue.name for queue in Queues(bus).list()]


def _leases(bus: Bus) -> Iterable[str]:
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

#: The values of an argument, by how help calls it; a NAME is one of its group's.
_ARGUMENTS: dict[str, Values] = {"AGENT": _agents, "TYPE": _types}
_NAMES: dict[str, Values] = {"queue": _queues, "lease": _leases}
