"""An option with one value is taken once; those that may be repeated are said to be."""

from typing import Any

import pytest

from . import reference
from .conftest import RunBus, assert_error

pytestmark = pytest.mark.usefixtures("bus_dir")


@pytest.mark.parametrize(
    "line",
    [
        "tail --agent a --agent b",
        "tail --agent a --agent=b",
        "poll me --type a --type b",
        "poll me --limit 1 --limit 2",
        "poll me --limit=1 --limit=2",
        "publish note body --from a --from b",
        "request t.request body --from a --to b --to c",
        "queue create q --max-attempts 1 --max-attempts 2",
        "agents --online 1s --online 2s",
    ],
)
def test_a_second_value_is_refused_and_not_dropped(run_bus: RunBus, line: str) -> None:
    ended = run_bus(*line.split())
    option = next(word for word in reversed(line.split()) if word.startswith("--"))
    assert_error(ended, 2, f"give {option.partition('=')[0]} once", "--help")


def test_flags_may_be_repeated(run_bus: RunBus) -> None:
    assert run_bus("publish", "note", "--from", "a", "--json", "--json").code == 0
    assert run_bus("stats", "-v", "-v").code == 0


def test_what_may_be_repeated_is(run_bus: RunBus) -> None:
    line = ["publish", "note", "--from", "a", "--header", "a=1", "--header", "b=2"]
    assert run_bus(*line).code == 0
    assert '"headers":{"a":"1","b":"2"}' in run_bus("read", "--json").out


@pytest.mark.parametrize("command", ["read", "tail", "replay"])
def test_a_message_may_have_any_of_several_types(run_bus: RunBus, command: str) -> None:
    for type in ("task.begun", "task.done", "note"):
        run_bus("publish", type, "--from", "a")
    found = run_bus(command, "--type", "note", "--type", "task.d*", "--type", "task.done")
    assert found.code == 2  # a part is whole, or a wildcard
    found = run_bus(command, "--type", "note", "--type", "task.done")
    assert [line.split()[5] for line in found.out.splitlines()] == ["task.done", "note"]


def test_help_says_which_options_may_be_repeated() -> None:
    silent = [
        (path, parameter.name)
        for path, command in reference.commands()
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.multiple and not _says_so(parameter)
    ]
    assert silent == []


def _says_so(parameter: Any) -> bool:
    return "may be repeated" in parameter.help
