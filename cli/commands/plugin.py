"""Plugins: add, list, show, their facts, run, health."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..definition import Commands, optional, optional_word
from ..options.payload import json_argument
from ..options.service import SERVICE, ServicePlace
from ..show.output import NOTHING, Output, json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...automation.plugins.discovery import Plugin
    from ...automation.plugins.manifest import Manifest

commands = Commands()
plugin = commands.group("plugin", help="Plugins: programs that the service of automation runs.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the plugin.")]


@plugin.command("list", example="bus plugin list")
def show_list(place: ServicePlace = SERVICE) -> int:
    """List the plugins of the configuration, and why some can't run. Exit code 4 for none."""
    snapshot = place.look()
    records = [_summary(plugin) for plugin in snapshot.plugins.values()]
    for fault in snapshot.registry.faults:
        place.output.note(str(fault))
    rows = [
        (
            *(record["plugin"], record["version"], ", ".join(record["commands"])),
            _first_sentence(record["description"]),
        )
        for record in records
    ]
    return place.output.results(records, rows, ("plugin", "version", "commands", "description"))


@plugin.command("add", example="bus plugin add feed")
def add(
    name: Annotated[
        str | None, optional_word("NAME", "The plugin. Without it, list the bundled plugins.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Also in place of a copy that differs.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be copied, and copy nothing.")
    ] = False,
    place: ServicePlace = SERVICE,
) -> int:
    """Copy a bundled plugin into the folder of plugins.

    That is the first of the configuration's plugin_roots. It runs from there, as any other, once
    the configuration names it. Later versions of this package leave the copy as it is; --replace
    brings it up to date.
    """
    from ...automation.plugins import discovery

    if name is None:
        return _list_shipped(place.output, discovery.shipped())
    root, within = place.first_root(), place.folder()
    added = discovery.add(name, root, within, replace=replace, dry_run=dry_run)
    manifest = added.manifest
    record = {"plugin": name, "version": manifest.version, "folder": str(added.folder)}
    done = {"new": "added", "same": "left as it was:", "changed": "replaced"}[added.state]
    would = "would have " if dry_run else ""
    place.output.result(
        record | {"state": added.state, "dry_run": dry_run},
        f"{would}{done} {name} {manifest.version} in {added.folder}",
    )
    if added.state == "new":
        required = ", ".join(manifest.config_keys.required)
        place.output.note(
            f"to run it, set plugins.{name}: enabled: true, and in its config {required}"
        )
    return 0


def _list_shipped(output: Output, manifests: list[Manifest]) -> int:
    records = [
        {"plugin": manifest.name, "version": manifest.version, "description": manifest.description}
        for manifest in manifests
    ]
    rows = [
        (manifest.name, manifest.version, _first_sentence(manifest.description))
        for manifest in manifests
    ]
    return output.results(records, rows, ("plugin", "version", "description"))


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).split(". ")[0].rstrip(".")


@plugin.command("show", example="bus plugin show feed --json")
def show(name: Name, place: ServicePlace = SERVICE) -> int:
    """Print a plugin's manifest, settings, jobs and keys of state."""
    from ...automation.config.redaction import shown
    from ...automation.status import plugin_of

    snapshot = place.look()
    installed = snapshot.registry.plugin(name)
    record: dict[str, Any] = _summary(installed) | {
        "folder": str(installed.folder),
        "entrypoint": str(installed.entrypoint),
        "settings": shown(snapshot.config)["plugins"][name],
        "parallelism": installed.parallelism,
        "timeouts_s": {
            command: installed.timeout_s(command) for command in installed.manifest.commands
        },
    }
    with place.open() as bus:
        record |= plugin_of(bus, name)
    lines = [
        f"{key}: {value if isinstance(value, str) else json_text(value)}"
        for key, value in record.items()
    ]
    place.output.result(record, *lines)
    return 0


@plugin.command("facts", example="bus plugin facts feed --limit 3 --json")
def facts(
    name: Name,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 20,
    values: Annotated[
        bool, typer.Option("--values", help="With what the plugin reported, which may be secret.")
    ] = False,
    place: ServicePlace = SERVICE,
) -> int:
    """List the newest facts of a plugin, which its state is made of.

    The newest comes first. Exit code 4 when it has none.
    """
    from ...automation.records.facts import Facts

    with place.open() as bus:
        newest = Facts.of(bus).newest(name, limit)
    names = ["id", "seq", "fact_type", "job_id", "command", "created_at"]
    if values:
        names.append("fact_json")
    records = [{name: getattr(fact, name) for name in names} for fact in newest]
    rows = [["" if value is None else value for value in record.values()] for record in records]
    return place.output.results(records, rows, names)


@plugin.command("run", example="""bus plugin run feed poll --payload '{"url": "…"}'""")
def run(
    name: Name,
    command: Annotated[
        str | None, optional_word("COMMAND", "What it is to do. Default: poll, or else handle.")
    ] = None,
    payload: Annotated[
        str | None, optional("JSON", "What it is given, - for stdin, or @FILE.", "--payload")
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Print the id of the job, and don't wait.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, and run nothing.")
    ] = False,
    place: ServicePlace = SERVICE,
) -> int:
    """Run a command of a plugin once, and print how it ended.

    The service runs it as a job like any other: queued, retried, routed. Exit code 1 when it
    failed, 4 when no service runs to wait for: the job waits for one.
    """
    installed = place.snapshot().registry.plugin(name)
    command_name = installed.command(command or _default_command(installed)).name
    body = None if payload is None else json_argument(payload, "--payload")
    if dry_run:
        record = {"plugin": name, "command": command_name, "payload": body, "dry_run": True}
        place.output.result(record, f"would run {name} {command_name}")
        return 0
    return _run(place, name, command_name, body, is_to_wait=not no_wait)


@plugin.command("health", example="bus plugin health feed")
def health(name: Name, place: ServicePlace = SERVICE) -> int:
    """Ask a plugin how it is, by the service, and print the answer.

    Exit code 1 when it is not well, 4 when no service runs.
    """
    from ...automation.service_lock import running_pid

    installed = place.snapshot().registry.plugin(name)
    running_pid(place.state_dir())
    return _run(place, name, installed.command("health").name, None, is_to_wait=True)


def _run(place: ServicePlace, name: str, command: str, payload: object, is_to_wait: bool) -> int:
    from ...automation.jobs.submission import JobRequest, Submission, Submitted, outcome_of
    from ...automation.service_lock import is_running

    request = JobRequest(plugin=name, command=command, payload=payload, submitted_by="cli")
    with place.open() as bus:
        done = Submission(bus).submit(request)
        assert isinstance(done, Submitted)  # it has no key, so it is no duplicate
        record = {"job_id": done.job_id, "seq": done.seq, "plugin": name, "command": command}
        has_service = is_running(place.state_dir())
        if not has_service:
            place.output.note("no service runs: the job waits until 'bus automation start'")
        if not is_to_wait or not has_service:
            place.output.result(record | {"status": "queued"}, done.job_id)
            return NOTHING if is_to_wait else 0
        outcome = outcome_of(bus, done)
    ending = {"result": outcome.result} if outcome.error is None else {"error": outcome.error}
    text = outcome.result if outcome.error is None else outcome.error
    place.output.result(
        record | {"status": outcome.state, "attempt": outcome.attempt} | ending,
        f"{name} {command} {outcome.state}: {text or ''}",
    )
    return 0 if outcome.state == "succeeded" else 1


def _summary(plugin: Plugin) -> dict[str, Any]:
    return {
        "plugin": plugin.name,
        "version": plugin.manifest.version,
        "description": plugin.manifest.description,
        "commands": {command.name: command.type for command in plugin.manifest.commands.values()},
    }


def _default_command(plugin: Plugin) -> str:
    return "poll" if "poll" in plugin.manifest.commands else "handle"
