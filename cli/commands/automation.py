"""The service of automation and its configuration: automation, config."""

from __future__ import annotations

import os
import shlex
import signal
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ...schema.errors import AckbusError, InvalidInput, NotFound, Refused
from ...schema.findings import OK
from ..definition import Commands, optional, optional_word
from ..options.common import Directory, Json, Verbose
from ..options.service import (
    CONFIG_VARIABLE,
    FOLDER_HELP,
    SERVICE,
    ExitCode,
    ServicePlace,
    answer,
    folder_of,
    origin_of,
)
from ..show.output import NOTHING, Output
from ..show.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

commands = Commands()
automation = commands.group(
    "automation", help="The service that runs schedules, plugins, routes and webhooks."
)

Plugin = Annotated[str, typer.Argument(metavar="PLUGIN", help="The name of the plugin.")]
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")]

#: How long to wait for the service to reload or to end, in seconds; and between two looks.
_WITHIN_S, _LOOK_EVERY_S = 10.0, 0.05


@automation.command("init", example="bus automation init ./automation")
def init(
    output: Output,
    folder: Annotated[
        str | None,
        optional_word("DIR", "The folder. Default: $BUS_CONFIG, else automation."),
    ] = None,
    config: Annotated[
        str | None, optional("DIR", "The folder, in place of DIR.", "--config")
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Make a small folder of configuration that works.

    It is sealed, and has a plugin with one schedule, one route and one webhook with a new secret.
    Exit code 3 when there is a configuration, or another file in the place of one.
    """
    from ...automation.active_config import files_of
    from ...automation.config.files import make_starter
    from ...automation.config.sources import write_seal

    if folder is not None and config is not None:
        raise InvalidInput("give DIR or --config, not both")
    where = Path(folder or config or os.environ.get(CONFIG_VARIABLE) or "automation").absolute()
    files = make_starter(where)
    write_seal(*files_of(where))
    named = shlex.quote(str(where))
    output.result(
        {"dir": str(where), "files": [str(file) for file in files]},
        f"made a configuration in {where}",
        f"start it with 'bus automation start --config {named}'",
        f"then try 'bus plugin run hello --config {named}'"
        f" and 'bus webhook test hello --config {named}'",
    )
    return 0


@automation.command("start", example="bus automation start --config ./automation")
def start(
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse a configuration with plugins to be left out.")
    ] = False,
    allow_unsealed: Annotated[
        bool,
        typer.Option(
            "--allow-unsealed",
            help="Take tokens, scopes and webhooks that are not as they were sealed.",
        ),
    ] = False,
    place: ServicePlace = SERVICE,
) -> int:
    """Start the service of a configuration, in the foreground.

    It says one line on stderr when it is ready, and logs to stdout, one JSON object a line. SIGHUP
    takes the configuration again; Ctrl-C or SIGTERM end it: running jobs have 20 s, a second
    signal ends them at once. Its bus is data/.worker-state in the folder, or beside its state.path,
    unless --dir or BUS_DIR names another. Plugins that can't be loaded are left out, and named on
    stderr. Exit code 1 when a service runs already, 78 when the configuration is refused.
    """
    from ...automation.config.load import Demands
    from ...automation.config.values import ConfigFaults
    from ..running.automation_host import serve

    place.refuse_found()
    try:
        demands = Demands(seal=not allow_unsealed, plugins=strict)
        serve(place.output, place.folder(), place.bus_directory(), place.origin(), demands)
    except ConfigFaults as error:
        for fault in error.faults[:-1]:
            place.output.note(str(fault))
        raise ConfigFaults(error.faults[-1:]) from error
    return 0


@automation.command("status", example="bus automation status --json")
def status(exit_code: ExitCode = False, place: ServicePlace = SERVICE) -> int:
    """Print the service's state, its last runs, and what to look at.

    Exit code 4 when no service runs; with --exit-code that is 2, something broken.
    """
    from ...automation.attention import findings
    from ...automation.status import status_of

    with place.open() as bus:
        record = status_of(bus)
        pid = _pid(place)
        look_at = [finding for finding in findings(bus) if finding.state != OK]
    record["service"]["is_running"] = pid is not None
    if pid:  # the service writes down its own only when it is ready
        record["service"]["pid"] = pid
    record["findings"] = [asdict(finding) for finding in look_at]
    place.warn_of_hidden_plugins()
    place.output.result(record, *_lines(place.output, record))
    if exit_code:
        return answer((finding.state for finding in look_at), is_broken=pid is None)
    return 0 if pid is not None else NOTHING


@automation.command("reload", example="bus automation reload")
def reload(place: ServicePlace = SERVICE) -> int:
    """Have the service take its configuration again, as SIGHUP does.

    Plugins that can't be loaded are left out, and named on stderr. Exit code 4 when no service
    runs, 1 when it refuses the configuration: the one before stays in force.
    """
    from ...automation.attention import last_activation
    from ...automation.service_lock import running_pid, send_signal

    place.refuse_found()
    pid = running_pid(place.state_dir())
    with place.open() as bus:
        before = last_activation(bus).number
        send_signal(place.state_dir(), signal.SIGHUP)
        if not _within(lambda: last_activation(bus).number != before):
            raise AckbusError(
                "the service has not taken the configuration: see its log, and 'bus config check'"
            )
        activation = last_activation(bus)
    if activation.refused is not None:
        raise AckbusError(f"the configuration is refused: {activation.refused}")
    for why in activation.left_out.values():
        place.output.note(f"left out: {why}")
    place.output.result(
        {"pid": pid, "reloaded": True}, f"process {pid} has taken the configuration"
    )
    return 0


@automation.command("stop", example="bus automation stop")
def stop(
    now: Annotated[bool, typer.Option("--now", help="End running jobs at once.")] = False,
    place: ServicePlace = SERVICE,
) -> int:
    """Stop the service, and wait until it has ended.

    Running jobs have 20 s to end; then they are ended, and run again after the next start. Exit
    code 4 when no service runs.
    """
    from ...automation.service import STOP_S
    from ...automation.service_lock import is_running, running_pid, send_signal
    from ...schema.process_table import process, runs

    place.refuse_found()
    where = place.state_dir()
    pid = running_pid(where)
    itself = str(process(pid))

    def has_ended() -> bool:
        return not is_running(where) and not runs(itself)

    send_signal(where, signal.SIGTERM)
    if now and not _within(has_ended, _LOOK_EVERY_S):  # two at once may be one
        with suppress(Refused):  # it has ended since
            send_signal(where, signal.SIGTERM)
    if not _within(has_ended, STOP_S + _WITHIN_S):
        raise AckbusError(
            f"process {pid} has not ended yet; 'bus automation stop --now' ends its jobs"
        )
    place.output.result({"pid": pid, "stopped": True}, f"process {pid} has ended")
    return 0


@automation.command("run", example="bus automation run feed")
def run(
    name: Plugin,
    place: ServicePlace = SERVICE,
) -> int:
    """Run a plugin once, as 'bus plugin run' does, with its exit codes."""
    from .plugin import run as run_plugin

    return run_plugin(name, place=place)


@automation.command("plugins", example="bus automation plugins")
def plugins(place: ServicePlace = SERVICE) -> int:
    """List the plugins, as 'bus plugin list' does. Exit code 4 when there are none."""
    from .plugin import show_list

    return show_list(place)


@automation.command("queue", example="bus automation queue --json")
def queue(limit: Limit = 100, place: ServicePlace = SERVICE) -> int:
    """List the jobs of plugins that wait or run, the oldest first.

    Exit code 4 when there are none.
    """
    from ...automation.status import live_jobs

    with place.open() as bus:
        jobs = live_jobs(bus, limit)
    names = ("id", "plugin", "command", "status", "attempt", "submitted_by", "created_at")
    rows = [[job.get(name) or "" for name in names] for job in jobs]
    return place.output.results(jobs, rows, names)


@automation.command("logs", example="bus automation logs feed --limit 3")
def logs(
    name: Annotated[
        str | None, optional_word("PLUGIN", "The name of the plugin. Default: all.")
    ] = None,
    limit: Limit = 20,
    place: ServicePlace = SERVICE,
) -> int:
    """Print the newest attempts, with what their plugins printed.

    Nothing of it is hidden: what a plugin prints may be secret. Exit code 4 when there are none.
    """
    from ...automation.status import logged

    with place.open() as bus:
        attempts = logged(bus, limit, name)
    if place.output.is_json:
        return place.output.results(attempts)
    for attempt in attempts:
        why = f": {attempt['last_error']}" if attempt["last_error"] else ""
        place.output.line(
            f"{attempt['completed_at']} {attempt['plugin']} {attempt['command']}"
            f" {attempt['status']} (job {attempt['id']}){why}"
        )
        for stream in ("stderr", "result"):
            for printed in (attempt[stream] or "").splitlines():
                place.output.line(f"  {stream}: {printed}")
    return 0 if attempts else NOTHING


@automation.command("breaker", example="bus automation breaker feed")
def breaker(name: Plugin, place: ServicePlace = SERVICE) -> int:
    """Print the circuit breakers of a plugin, and their changes."""
    from ...automation.status import breaker_history

    with place.open() as bus:
        history = breaker_history(bus, name)
    lines = [
        f"{row['command']}: {row['state']}, after {row['failure_count']} failures in a row"
        for row in history["breakers"]
    ]
    lines += [
        f"{row['created_at']} {row['command']}: {row['from_state']} -> {row['to_state']}"
        f" ({row['reason']})"
        for row in history["history"]
    ]
    place.output.result(history, *(lines or [f"no scheduled job of {name} has failed"]))
    return 0


@automation.command(
    "api", example="bus automation api /plugin/feed/poll -f url=https://example.org"
)
def api(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The path, like /jobs?limit=3.")],
    method: Annotated[
        str | None, optional("METHOD", "The method. Default: GET, or POST with -f.", "-X")
    ] = None,
    field: Annotated[
        list[str] | None,
        optional(
            "KEY=VALUE",
            "A field of the payload, or KEY:=JSON; with -X GET of the query; may be repeated.",
            "-f",
        ),
    ] = None,
    place: ServicePlace = SERVICE,
) -> int:
    """Call the API of the service, and print the body of the answer.

    Its address and its token are those of the configuration: the token that may do most. /events
    is printed as it comes. Exit code 1 when the call was refused, 4 when there is no API, or no
    service runs.
    """
    from ...automation.service_lock import running_pid
    from ..running.service_call import parse_call, print_answer

    place.refuse_found()
    running_pid(place.state_dir())  # else another program with that port would get the token
    return print_answer(
        place.output, place.snapshot().config, parse_call(path, method, field or ())
    )


@automation.command("reset", example="bus automation reset feed")
def reset(
    name: Plugin,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be reset, and reset nothing.")
    ] = False,
    place: ServicePlace = SERVICE,
) -> int:
    """Close the circuit breakers of a plugin: its schedules go on."""
    from ...automation.status import reset_breakers

    with place.open() as bus:
        count = reset_breakers(bus, name, dry_run=dry_run)
    done = "would be closed" if dry_run else "were closed"
    place.output.result(
        {"plugin": name, "closed": count, "dry_run": dry_run}, f"{count} breakers of {name} {done}"
    )
    return 0


def _pid(place: ServicePlace) -> int | None:
    from ...automation.service_lock import NoService, running_pid

    try:
        return running_pid(place.state_dir())
    except NoService:
        return None
    except Refused:  # it runs where its process can't be seen
        return 0


def _within(is_done: Callable[[], bool], within_s: float = _WITHIN_S) -> bool:
    end = time.monotonic() + within_s
    while not is_done():
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True


def _lines(output: Output, record: dict[str, Any]) -> list[str]:
    service = record["service"]
    runs = f"runs as process {service['pid']}" if service["is_running"] else "does not run"
    lines = [
        f"the service {runs}",
        f"jobs: {record['queue_depth']} wait or run, {record['dead']} are dead",
    ]
    for finding in record["findings"]:
        advice = output.completed(finding["advice"])
        lines.append(f"{finding['state']}  {finding['check']}: {finding['text']}; {advice}")
    if record["is_saturated"]:
        lines.append(f"jobs wait for {record['oldest_wait_s']:.0f} s: more workers are needed")
    for plugin in record["plugins"].values():
        unhealthy = f", init failed: {plugin['init_error']}" if plugin["init"] == "failed" else ""
        lines.append(
            f"plugin {plugin['plugin']}: {plugin['queued']} queued, {plugin['running']} running,"
            f" {plugin['dead']} dead{unhealthy}"
        )
    for breaker in record["breakers"]:
        if breaker["state"] != "closed":
            lines.append(f"breaker {breaker['plugin']} {breaker['command']}: {breaker['state']}")
    for run in record["last_runs"]:
        why = f": {run['error']}" if run["error"] else ""
        lines.append(f"{run['completed_at']} {run['plugin']} {run['command']} {run['status']}{why}")
    return lines


# Configuration of the automation: check, diff, lock, show.

config = commands.group(
    "config", help="Configuration of the automation: check it, show it, seal it."
)

Folder = Annotated[str | None, optional_word("DIR", FOLDER_HELP)]

#: The exit code where a configuration is wrong, or has changed.
DIFFERENT = 1


@config.command("check", example="bus config check /etc/automation")
def check(
    output: Output, folder: Folder = None, json: Json = False, verbose: Verbose = False
) -> int:
    """Check a configuration and its plugins, and print every fault.

    A fault is one line: the file, the line, the path of the setting, and what to write. Warnings go
    to stderr. Exit code 0 where nothing is wrong, 1 else; nothing is changed.
    """
    from ...automation.active_config import examine_folder
    from ...automation.config.values import ConfigFaults

    where = folder_of(folder)
    try:
        report = examine_folder(where, os.environ, origin_of(folder))
    except ConfigFaults as refused:
        faults, warnings = refused.faults, refused.warnings
    else:
        faults, warnings = report.faults, report.warnings
    for warning in warnings:
        output.note(f"warning: {warning}")
    for fault in faults:
        output.result(asdict(fault), str(fault))
    if not faults and not output.is_json:
        output.line(f"{where} is right")
    return DIFFERENT if faults else 0


@config.command("show", example="bus config show --only plugin:echo")
def show(
    output: Output,
    folder: Folder = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:NAME",
            help="Only what has this name, '*' for all: plugin, pipeline, webhook or token.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Print the configuration with all defaults, without secrets.

    Secrets are shown as [REDACTED], and what came from a variable as ${NAME}. Exit code 78 where
    the configuration is wrong, 4 where nothing has the name.
    """
    from ...automation.config.redaction import shown

    view: Any = shown(ServicePlace(config=folder, output=output).look().config)
    if only is not None:
        view = _named(view, only)
    if output.is_json:
        output.json_line(view)
    else:
        from ...automation.config.files import yaml_of

        output.body(yaml_of(view))
    return 0


@config.command("lock", example="bus config lock --dry-run")
def lock(
    output: Output,
    folder: Folder = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be sealed, and write nothing.")
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Seal the files of a configuration as they are.

    Writes their BLAKE3 hashes to .checksums. Look at 'bus config diff' before. From then on a
    service does not start where what the files say of tokens, scopes or webhooks has changed
    (FILE#access), or a file of them; of others it warns. Moving the folder breaks the seal.
    """
    from ...automation.active_config import files_of, from_seal
    from ...automation.config.sources import ACCESS, write_seal

    where = folder_of(folder)
    states = {change.file: change.state for change in from_seal(where)}
    directory, hashes = files_of(where)
    for path, hash in hashes.items():
        state = states.get(path, "same")
        record = {"file": path, "hash": hash, "state": state, "dry_run": dry_run}
        output.result(record, f"{state:<8} {path}")
    if not dry_run:
        seal = write_seal(directory, hashes)
        count = sum(not path.endswith(ACCESS) for path in hashes)
        output.note(f"sealed {counted(count, 'file')} in {seal}")
    return 0


@config.command("diff", example="bus config diff --service")
def diff(
    output: Output,
    folder: Folder = None,
    service: Annotated[
        bool, typer.Option("--service", help="Also compare with what the service has taken.")
    ] = False,
    directory: Directory = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Print the files of a configuration that differ from the seal.

    A file is new, changed, gone, or unused, where nothing includes it any more. Exit code 1 where
    there are any, or where the service has another configuration, 4 when no service runs.
    """
    from ...automation.active_config import from_seal

    where = folder_of(folder)
    changes = from_seal(where)
    is_same = not service or _is_of_service(output, where, directory)
    for change in changes:
        output.result(asdict(change), f"{change.state:<8} {change.file}")
    return 0 if is_same and not changes else DIFFERENT


def _is_of_service(output: Output, folder: Path, directory: str | None) -> bool:
    """Print whether the service of a bus has the configuration of a folder, and return it."""
    from ...automation.records.facts import Fence
    from ...automation.service_lock import running_pid

    place = ServicePlace(config=str(folder), directory=directory, output=output)
    hash = place.look().config.hash
    running_pid(place.state_dir())  # a service that was killed is still in the table
    with place.open() as bus:
        row = Fence.of(bus).row()
    if row.config_hash is None:
        raise NotFound("the service has not taken a configuration yet; see 'bus automation status'")
    state = "same" if row.config_hash == hash else "changed"
    record = {"file": str(row.directory), "state": state, "sealed": row.config_hash, "now": hash}
    output.result(record | {"against": "service"}, f"{state:<8} {row.directory} in the service")
    return state == "same"


def _named(view: Any, only: str) -> Any:
    """Return the parts of a configuration that have a name."""
    kind, _, name = only.partition(":")
    lists = {
        "plugin": list(view["plugins"].values()),
        "pipeline": view["pipelines"],
        "webhook": (view["webhooks"] or {}).get("endpoints", []),
        "token": view["tokens"],
    }
    parts = [part for part in lists.get(kind, ()) if name in ("*", part["name"])]
    if not parts:
        kinds = ", ".join(lists)
        raise NotFound(f"there is no {only!r}; the kinds are {kinds}, and '*' is every name")
    return {f"{kind}s": {part["name"]: part for part in parts}}
