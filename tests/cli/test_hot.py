"""The fast way in for publish, poll and ack: the same meaning as typer's, and nothing loaded."""

import contextlib
import inspect
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackbus.cli import app
from ackbus.cli.fast import actions, hot, mcp_server, prompt
from ackbus.cli.fast import agent_hooks as hooks
from ackbus.cli.show.output import Output
from ackbus.errors import InvalidInput

from ..conftest import RunBus
from ..sizes import size
from .loading import OF_EDITABLE, loaded_by

#: What each action takes for a parameter that is not given.
DEFAULTS: dict[str, dict[str, Any]] = {
    command: {
        name: parameter.default
        for name, parameter in inspect.signature(hot.action(command)).parameters.items()
        if parameter.default is not parameter.empty
    }
    for command in hot.OPTIONS
}
WORDS = ["a", "task.done", "7", "-", "", "x=y", "ü", "two words", "0", "12345678901234567890"]
LINES = [
    "publish t --from a",
    "publish t body --from=a --to b --json",
    "publish t - --from a",
    "publish t --data {} --from a --header k=v --header l=w",
    "publish t --data=@f --from a --strict --user",
    "publish t --file - --from a --id i --reply-to r --conversation c --priority background",
    "publish --from a t body",
    "publish t --dir d --from a",
    "poll a",
    "poll a --limit 5 --type task.> --wait 3 --json",
    "poll",
    "poll --json",
    "poll --limit=5 a",
    "ack a 7",
    "ack a 7 --json --dir=d",
    "ack --user a 7",
    "prompt",
    "prompt a --format=[{}] --dir d",
    "prompt --json --user a",
    "hook stop claude --agent a",
    "hook stop claude --agent a --no-bodies",
    "hook start claude --agent a --profile full",
    "mcp",
    "mcp --agent a --dir d --profile full",
]


def test_every_option_of_the_hot_way_is_typers_own() -> None:
    """Issue 2, item 10: typer stays the one definition of the command line."""
    for command, options in hot.OPTIONS.items():
        defined = _parameters(command)
        for option, parameter in options.items():
            assert option in defined[parameter].opts, (command, option)
            assert defined[parameter].is_flag == (parameter in hot._FLAGS)
            assert defined[parameter].multiple == (parameter in hot._REPEATABLE)


@pytest.mark.parametrize("line", LINES)
def test_plain_forms_are_hot_and_mean_what_typer_says(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = line.split()
    values = hot.parse_values(arguments)
    assert values is not None
    assert _filled(arguments[0], values) == _as_typer_reads(arguments, monkeypatch)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=size(sample=100, whole=300), deadline=None)
def test_whatever_the_hot_way_takes_typer_takes_in_the_same_way(data: st.DataObject) -> None:
    """Lines of options and words in any order, many of them wrong."""
    command = data.draw(st.sampled_from(sorted(hot.OPTIONS)))
    options = [*hot.OPTIONS[command], "--lim", "--help", "-v", "--", "--verbose", "--nope"]
    piece = st.one_of(
        st.sampled_from(options),
        st.sampled_from(WORDS),
        st.tuples(st.sampled_from(options), st.sampled_from(WORDS)).map("=".join),
    )
    arguments = [command, *data.draw(st.lists(piece, max_size=7))]
    values = hot.parse_values(arguments)
    if values is not None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            assert _filled(command, values) == _as_typer_reads(arguments, monkeypatch)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "tail",
        "publish",
        "publish --help",
        "publish t --from",
        "publish t --from --help",
        "publish t b c --from a",
        "publish t --fro a",
        "publish t --json=1 --from a",
        "publish t --from a -v",
        "publish t --from a -- -b",
        "publish --jsonl f",
        "poll a b",
        "poll a --limit x",
        "poll a --limit -1",
        "prompt a b",
        "prompt a -v",
        "ack a",
        "ack a seven",
        "ack a -7",
    ],
)
def test_everything_else_is_left_to_typer(line: str) -> None:
    assert hot.parse_values(line.split()) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("publish", "t", "body", "--from", "a"),
        ("publish", "t", "--data", "{}", "--from", "a", "--json"),
        ("poll", "a", "--limit", "3"),
        ("poll", "a", "--json"),
        ("poll", "c"),
        ("ack", "a", "1"),
    ],
)
def test_hot_commands_load_little(
    arguments: tuple[str, ...], bus_dir: Path, bus_env: dict[str, str], run_bus: RunBus
) -> None:
    """Issue 35: orjson, with the modules that it loads, takes as long as all that is needed."""
    run_bus("publish", "t", "body\nof two lines: é", "--from", "b")
    for agent in "ac":  # names that nobody has had before are compared with all others, by `re`
        run_bus("publish", "t", "hi", "--from", agent)
    run_bus("publish", "t", "--data", '{"a": [1, null, 1.5]}', "--from", "b", "--to", "a")
    loaded, _ = loaded_by(arguments, bus_dir.parent, bus_env, besides=OF_EDITABLE)
    assert "ackbus.cli.fast.actions" in loaded
    heavy = {"typer", "rich", "typing", "pathlib", "threading", "logging", "argparse", "asyncio"}
    heavy |= {"subprocess", "tempfile", "platformdirs", "tenacity", "inotify_simple", "shutil"}
    heavy |= {"bisect", "struct", "select", "hashlib", "re", "copy"}
    heavy |= {"orjson", "dataclasses", "inspect", "datetime", "uuid", "json", "platform"}
    assert not loaded & heavy
    exporting = {name for name in loaded if "ackbus.export" in name}
    names = ("automatic", "jsonl_file", "parts", "writer") if arguments[0] == "publish" else ()
    assert exporting >= {f"ackbus.export.jsonl.{name}" for name in names}
    assert len(exporting) <= (len(names) and 6)
    assert "ackbus.bus.log.records" not in loaded


def test_a_publish_that_is_not_to_export_loads_nothing_for_it(
    bus_dir: Path, bus_env: dict[str, str]
) -> None:
    env = bus_env | {"BUS_EXPORT": "off"}
    loaded, _ = loaded_by(("publish", "t", "body", "--from", "a"), bus_dir.parent, env)
    assert "ackbus.cli.fast.actions" in loaded
    assert not {name for name in loaded if "ackbus.export" in name}


def test_nothing_is_collected_while_modules_load_and_all_that_comes_later_may_be(
    project: Path, bus_env: dict[str, str]
) -> None:
    """Issue 15: collections would take a fifteenth of a hot command; doors run for months."""
    program = """\
import gc, os, sys
sys.argv = ["bus", "--version"]
os._exit = lambda code: None
from ackbus.cli import main
runs = []
gc.callbacks.append(lambda phase, _: runs.append(phase))
main()
print(runs, gc.isenabled(), gc.get_freeze_count() > 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=project,
        env=bus_env,
        check=True,
    )
    assert done.stdout.splitlines()[1:] == ["[] True True"]


def test_a_prompt_loads_even_less(bus_dir: Path, bus_env: dict[str, str], run_bus: RunBus) -> None:
    """Issue 4, item 6: a prompt costs at most three bare Pythons; orjson alone would be one."""
    run_bus("publish", "t", "body", "--from", "b")
    loaded, printed = loaded_by(["prompt", "a"], bus_dir.parent, bus_env, besides=OF_EDITABLE)
    assert printed == "1\n"
    assert not loaded & {"orjson", "dataclasses", "inspect", "json", "uuid", "typer", "typing"}
    assert not loaded & {"datetime", "logging", "threading", "pathlib"}
    assert not loaded & {"ackbus.bus.local_bus", "ackbus.blobs", "ackbus.schema.message.message"}


#: What no hook loads that finds nothing to say, and what only one that begins a session loads. The
#: time of a hook is that of its modules: the agent waits for it after each tool.
_HEAVY = {"dataclasses", "inspect", "logging", "shutil", "subprocess", "typer", "uuid"}
_HEAVY |= {f"ackbus.{name}" for name in ("blobs", "bus.bus", "bus.heartbeats", "bus.reservations")}
_OF_STARTS = {"datetime", "hashlib", "orjson", "ackbus.cli.fast.prime"}
_OF_STARTS |= {"ackbus.subscribers.inboxes.seen_mail", "ackbus.schema.message.message"}

#: The most modules of ours that a hook loads.
_MOST = {"start claude": 75, "tool claude": 50, "stop claude": 50, "tool windsurf": 50}


@pytest.mark.parametrize("hook", _MOST)
def test_hooks_that_find_no_mail_load_little(
    hook: str, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    arguments = ("hook", *hook.split(), "--agent", "a")
    loaded_by(("hook", "start", "claude", "--agent", "a"), bus_dir.parent, bus_env)  # it joins
    # An editable install, and what orjson needs, are no modules of ours.
    besides = "pathlib, importlib.machinery" if hook[:5] != "start" else "pathlib, orjson"
    loaded, _ = loaded_by(arguments, bus_dir.parent, bus_env, besides=besides)
    unwanted = _HEAVY if hook[:5] == "start" else _HEAVY | _OF_STARTS
    assert sorted(loaded & unwanted) == []
    assert len({name for name in loaded if name.startswith("ackbus")}) <= _MOST[hook]
    if hook == "tool windsurf":  # an unknown program is refused before anything is parsed
        assert not loaded & {"json", "enum"}


def test_a_session_that_begins_opens_the_bus_once(
    bus_dir: Path, bus_env: dict[str, str], run_bus: RunBus
) -> None:
    """With mail, and with reservations of a session that may have ended."""
    run_bus("publish", "t", "body", "--from", "b", "--to", "a")
    program = """\
import os, sys
os._exit = sys.exit
sys.argv = ["bus", "hook", "start", "claude", "--agent", "a"]
from ackbus.schema.sqlite.database import Database
opened, connect = [], Database.connect
Database.connect = lambda *words, **named: opened.append(1) or connect(*words, **named)
from ackbus.cli import main
try: main()
finally: print(len(opened), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=bus_dir.parent,
        env=bus_env,
        check=False,
    )
    assert "1 unread" in done.stdout
    assert done.stderr == "1\n"


def _parameters(command: str) -> dict[str, Any]:
    import typer

    group: Any = typer.main.get_command(app.app)
    return {parameter.name: parameter for parameter in group.commands[command].params}


def _as_typer_reads(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> dict[str, object] | None:
    """The values with which typer's command calls its action; None when it refuses the line."""
    called: list[dict[str, object]] = []

    def record(passed: Output, *words: str, **values: object) -> int:
        assert passed is output
        names, _ = hot.WORDS[arguments[0]]
        called.append({**dict(zip(names, words, strict=False)), **values})
        return 0

    output = Output()
    home = {"prompt": prompt, "hook": hooks, "mcp": mcp_server}.get(arguments[0], actions)
    monkeypatch.setattr(home, arguments[0], record)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(InvalidInput):
        app.run(output, arguments)
    if not called:
        return None
    form = {"json": output.is_json} if "--json" in hot.OPTIONS[arguments[0]] else {}
    return _filled(arguments[0], called[0] | form)


def _filled(command: str, values: dict[str, Any]) -> dict[str, object]:
    """The values, with the action's defaults for those that were not given."""
    form = {"json": False} if "--json" in hot.OPTIONS[command] else {}
    filled = DEFAULTS[command] | form | values
    if "header" in filled:
        filled["header"] = list(filled["header"])
    return filled
