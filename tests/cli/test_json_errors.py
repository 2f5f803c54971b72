"""Errors of commands with --json: one object on stderr, by the exit code of the command."""

import json
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.cli import app
from ackbus.cli.ending import guarded
from ackbus.cli.fast import hot
from ackbus.cli.show.output import Output

from ..conftest import RunBus

#: Command lines that fail, each with its exit code and the kind of its error.
FAILING = [
    (["show", "77"], 4, "NotFound"),
    (["ack", "me", "99"], 3, "AckPastEnd"),
    (["poll", "me", "--limit", "none"], 2, "BadParameter"),
    (["poll", "me", "--nope"], 2, "NoSuchOption"),
    (["show"], 2, "MissingParameter"),
    (["nope"], 2, "UsageError"),
    (["publish", "two words", "--from", "me"], 2, "InvalidInput"),
    (["queue", "show", "none"], 4, "QueueNotFound"),
    (["task", "start", "none", "--agent", "me"], 4, "TaskNotFound"),
    (["schedule", "list"], 78, "ConfigFaults"),
]


@pytest.mark.usefixtures("bus_dir")
@pytest.mark.parametrize(("words", "code", "kind"), FAILING, ids=lambda value: str(value))
def test_an_error_is_an_object_where_json_is_wanted(
    run_bus: RunBus, words: list[str], code: int, kind: str
) -> None:
    """D-143: `error`, `code` and `context`; also of a line that can't be parsed."""
    plain, ended = run_bus(*words), run_bus(*words, "--json")
    assert (plain.code, ended.code, ended.out) == (code, code, "")
    (line,) = ended.err.splitlines()
    told = json.loads(line)
    assert f"bus: {told['error']}\n" == plain.err
    assert (told["code"], told["context"]["kind"]) == (code, kind)


def test_the_facts_of_an_error_are_its_context(run_bus: RunBus, project: Path) -> None:
    """Without a bus, and where --json is no option but a word of the command to run."""
    told = json.loads(run_bus("poll", "me", "--json").err)
    assert (told["code"], told["context"]["kind"]) == (1, "BusNotFound")
    assert run_bus("run", "t", "--", "prog", "--json").err.startswith("bus: ")


def test_a_second_command_in_the_same_process_has_a_form_of_its_own(
    bus: Bus,
    bus_dir: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither --json, -v, nor --dir, nor a note for the end that an error replaced, goes over."""

    def run(*words: str) -> tuple[str, str]:
        output = Output(words)
        action = hot.parse(output, words) or (lambda: app.run(output, list(words)))
        guarded(output, action)
        return capsys.readouterr()

    monkeypatch.chdir(bus_dir.parent)
    bus.publish("t", "text", from_agent="a")
    backup = str(tmp_path / "backup")
    run("backup", backup)
    why, see = "no message '9' in the log", "see 'bus read'\n"
    for words in (["show", "9"], ["poll", "me"]):  # the parser's way, and the fast one
        plain = run(*words)
        for form in (["--json"], ["-v"], ["--json", "-v", "--dir", backup], ["--dir", backup]):
            assert run(*words, *form) != plain, form
            assert run("show", "9") == ("", f"bus: {why}; {see}")
            assert run(*words) == plain
