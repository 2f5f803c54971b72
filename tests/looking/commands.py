"""Every command, in one of two tables: those that only look, with their lines, and those that act.

A command that is in neither fails a test: one that only looks is walked over hostile places. Names
in the lines (`m-1`, `t-1`, `work`, `ann`) are those of the buses of these tests.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ackbus.cli import app
from ackbus.setup.programs import PROGRAMS

#: The folder of the automation's configuration, in the folder where commands run.
CONFIG = "auto"


def _of_programs(*options: str) -> dict[str, list[str]]:
    """Return lines of `bus setup PROGRAM`, by command."""
    return {f"setup {name}": list(options) for name in PROGRAMS}


#: The arguments with which each command is tried; one without any is tried alone.
LOOKING: dict[str, list[str]] = {
    "check": ["m-1"],
    "poll": ["bob"],
    "inbox": ["bob"],
    "wake": ["bob"],
    "parked list": ["bob", "--json"],
    "read": ["", "--json"],
    "tail": [""],
    "search": ["small"],
    "replay": ["--from 1"],
    "show": ["m-1", "2 --json", "large"],
    "receipts": ["m-1"],
    "inspect": ["", "14"],
    "trace": ["m-1", "14 --json"],
    "graph": ["", "m-1"],
    "timeline": [""],
    "queue list": [""],
    "queue show": ["work"],
    "job list": ["", "--json"],
    "job show": ["14", "15"],
    "dead list": [""],
    "dead show": ["14"],
    "limit list": [""],
    "lease list": [""],
    "agents list": [""],
    "top": ["--once", "--once --json"],
    "task board": ["--once", "--json", "--at 3"],
    "task forecast": ["", "t-1 t-2", "main topic", "--json"],
    "task comments": ["t-1"],
    "task proof": ["t-1", "t-3", "HEAD"],
    "task diff": ["t-1", "t-2 --stat", "t-3", "t-4"],
    "task list": ["", "--all --json"],
    "task show": ["t-1", "t-2 --json"],
    "task log": ["t-1"],
    "crew status": [""],
    "automation status": [f"--config {CONFIG}"],
    "automation plugins": [f"--config {CONFIG}"],
    "automation queue": [f"--config {CONFIG}"],
    "automation logs": [f"--config {CONFIG}"],
    "automation breaker": [f"p --config {CONFIG}"],
    "plugin list": [f"--config {CONFIG}"],
    "plugin show": [f"p --config {CONFIG}"],
    "plugin facts": [f"p --config {CONFIG}"],
    "route list": [f"--config {CONFIG}"],
    "route test": [f"--from 1 --config {CONFIG}"],
    "pipeline list": [f"--config {CONFIG}"],
    "pipeline show": [f"x --config {CONFIG}"],
    "pipeline graph": [f"--config {CONFIG}"],
    "pipeline tree": [f"m-1 --config {CONFIG}"],
    "config check": [CONFIG],
    "config show": [CONFIG],
    "config diff": [CONFIG, f"{CONFIG} --service"],
    "schedule list": [f"--config {CONFIG}"],
    "schedule next": [f"p --config {CONFIG}"],
    "schedule history": [f"p --config {CONFIG}"],
    "webhook list": [f"--config {CONFIG}"],
    "webhook show": [f"x --config {CONFIG}"],
    "reservations list": [""],
    "guard check": [""],
    "blob get": ["large"],
    "blob verify": [""],
    "log": ["", "HEAD~1..HEAD"],
    "where": [""],
    "stats": [""],
    "doctor": ["", "--full", "--repair --dry-run"],
    "segments": ["", "--verify"],
    "key list": [""],
    "key show": ["ann"],
    "verify": ["", "--strict"],
    "chain status": [""],
    "token list": [""],
    "trust list": [""],
    "setup git": ["--check"],
    **_of_programs("--check", "--dry-run"),
    "prime": ["", "--agent bob"],
    "hook": ["start claude --agent bob", "stop claude --agent bob"],
    "prompt": ["bob"],
    "completion bash": [""],
    "completion zsh": [""],
    "completion fish": [""],
    "completion words": ["task"],
}

#: Forms of commands that act which only look: they say what the act would do.
DRY = {
    "archive": "--older-than 0s --dry-run",
    "agents forget": "bob --dry-run",
    "automation reset": f"p --dry-run --config {CONFIG}",
    "blob gc": "--dry-run",
    "crew start": "--check",
    "dead drop": "14 --dry-run",
    "integrate": "--dry-run",
    "dead requeue": "14 --dry-run",
    "job retry": "14 --dry-run",
    "queue purge": "work --dry-run",
    "queue remove": "work --dry-run",
    "task clean": "--dry-run",
}

_STEP = "a step of a task: the rights of who acts are tested in tests/tasks"
_WRITES = "writes what its user names"
_RUNS = "runs what its user names"
_SERVICE = "asks the service, which acts"
_SERVES = "the doors: `tests/looking/doors.py` asks them"

#: Why each other command is left out.
ACTING: dict[str, str] = {
    **dict.fromkeys(("publish", "request", "ack", "parked requeue", "parked drop"), _WRITES),
    **dict.fromkeys(("queue create", "queue set", "queue pause", "queue resume"), _WRITES),
    **dict.fromkeys(("queue purge", "queue remove", "queue skip", "job retry"), _WRITES),
    **dict.fromkeys(("job cancel", "dead requeue", "dead drop", "limit set"), _WRITES),
    **dict.fromkeys(("limit clear", "lease acquire", "lease renew", "lease release"), _WRITES),
    **dict.fromkeys(("agents forget", "heartbeat", "reserve", "reservations renew"), _WRITES),
    **dict.fromkeys(("reservations release", "blob put", "blob gc", "export", "import"), _WRITES),
    **dict.fromkeys(("init", "archive", "maintain", "backup", "restore", "upgrade"), _WRITES),
    **dict.fromkeys(("key create", "key remove", "chain on", "chain off"), _WRITES),
    **dict.fromkeys(("trust add", "trust remove", "completion man", "config lock"), _WRITES),
    **dict.fromkeys(("token create", "token rotate", "token remove", "plugin add"), _WRITES),
    **dict.fromkeys(("guard install", "guard remove"), _WRITES),
    **dict.fromkeys(("notify", "listen", "run", "forward", "torture", "demo"), _RUNS),
    **dict.fromkeys(("task attach", "task work", "task plan", "integrate", "crew start"), _RUNS),
    **dict.fromkeys(("task spawn", "task done", "task clean", "task comment"), _STEP),
    **dict.fromkeys(("task request", "task add", "task start", "task heartbeat"), _STEP),
    **dict.fromkeys(("task approve", "task reject", "task merge", "task cancel"), _STEP),
    **dict.fromkeys(("task confirm",), _STEP),
    **dict.fromkeys(("task fail", "task block", "task answer", "task settle"), _STEP),
    "automation init": "makes a folder of configuration",
    **dict.fromkeys(("crew stop", "automation stop", "automation reload"), _SERVICE),
    **dict.fromkeys(("automation run", "automation api", "automation reset"), _SERVICE),
    **dict.fromkeys(("automation start", "plugin run", "plugin health"), _SERVICE),
    **dict.fromkeys(("pipeline run", "pipeline cancel", "pipeline repeat"), _SERVICE),
    **dict.fromkeys(("schedule pause", "schedule resume", "schedule run"), _SERVICE),
    **dict.fromkeys(("schedule backfill", "webhook test"), _SERVICE),
    **dict.fromkeys(("mcp", "serve", "ui"), _SERVES),
}

#: Those that start git, and so meet whatever a repository has.
OF_GIT = (
    *("task board", "task forecast", "task comments", "task proof", "task diff", "task clean"),
    *("log", "guard check", "setup git", "doctor", "hook", "prime", "top", "integrate"),
)


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its words, with its definition."""
    return _leaves(app.program().commands, ())


def lines() -> list[list[str]]:
    """Return all lines that only look."""
    pairs = [(name, words) for name, tried in LOOKING.items() for words in tried]
    return [[*name.split(), *words.split()] for name, words in [*pairs, *DRY.items()]]


def lines_of_git() -> list[list[str]]:
    """Return those that start git."""
    names = [name.split() for name in OF_GIT]
    return [line for line in lines() if any(line[: len(name)] == name for name in names)]


def with_directory(tried: list[list[str]], directory: Path) -> list[list[str]]:
    """Return the lines whose commands may name their bus, each naming it."""
    takes = [
        name.split()
        for name, made in commands()
        if any("--dir" in option.opts for option in made.params)
    ]
    return [
        [*line, "--dir", str(directory)]
        for line in tried
        if any(line[: len(name)] == name for name in takes)
    ]


def _leaves(group: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name in group:
        made = group[name]
        if hasattr(made, "commands"):
            yield from _leaves(made.commands, (*above, name))
        else:
            yield " ".join((*above, name)), made
