"""Configuration of the automation: check, diff, lock, show."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ...schema.errors import NotFound
from ..definition import Commands, optional_word
from ..options.common import Directory, Json, Verbose
from ..options.service import FOLDER_HELP, ServicePlace, folder_of, origin_of
from ..show import output

commands = Commands()
config = commands.group(
    "config", help="Configuration of the automation: check it, show it, seal it."
)

Folder = Annotated[str | None, optional_word("DIR", FOLDER_HELP)]

#: The exit code where a configuration is wrong, or has changed.
DIFFERENT = 1


@config.command("check", example="bus config check /etc/automation")
def check(folder: Folder = None, json: Json = False, verbose: Verbose = False) -> int:
    """Check a configuration and its plugins, and print every fault.

    A fault is one line: the file, the line, the path of the setting, and what to write. Warnings go
    to stderr. Exit code 0 where nothing is wrong, 1 else; nothing is changed.
    """
    from ...automation.config.faults import ConfigFaults
    from ...automation.snapshots import examine_folder

    where = folder_of(folder)
    try:
        found = examine_folder(where, os.environ, origin_of(folder))
    except ConfigFaults as refused:
        faults, warnings = refused.faults, refused.warnings
    else:
        faults, warnings = found.faults, found.warnings
    for warning in warnings:
        output.note(f"warning: {warning}")
    for fault in faults:
        output.result(asdict(fault), str(fault))
    if not faults and not output.is_json():
        output.line(f"{where} is right")
    return DIFFERENT if faults else 0


@config.command("show", example="bus config show --only plugin:echo")
def show(
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

    view: Any = shown(ServicePlace(config=folder).look().config)
    if only is not None:
        view = _named(view, only)
    if output.is_json():
        output.json_line(view)
    else:
        from ...automation.config.files.writing import yaml_of

        output.body(yaml_of(view))
    return 0


@config.command("lock", example="bus config lock --dry-run")
def lock(
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
    from ...automation.config.files.checksums import ACCESS, write_seal
    from ...automation.differences import files_of, from_seal

    where = folder_of(folder)
    states = {each.file: each.state for each in from_seal(where)}
    directory, hashes = files_of(where)
    for path, hash in hashes.items():
        state = states.get(path, "same")
        record = {"file": path, "hash": hash, "state": state, "dry_run": dry_run}
        output.result(record, f"{state:<8} {path}")
    if not dry_run:
        seal = write_seal(directory, hashes)
        count = sum(not path.endswith(ACCESS) for path in hashes)
        output.note(f"sealed {output.counted(count, 'file')} in {seal}")
    return 0


@config.command("diff", example="bus config diff --service")
def diff(
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
    from ...automation.differences import from_seal

    where = folder_of(folder)
    found = from_seal(where)
    is_same = not service or _is_of_service(where, directory)
    for each in found:
        output.result(asdict(each), f"{each.state:<8} {each.file}")
    return 0 if is_same and not found else DIFFERENT


def _is_of_service(folder: Path, directory: str | None) -> bool:
    """Print whether the service of a bus has the configuration of a folder, and return it."""
    from ...automation.records.fence import Fence
    from ...automation.service_lock import running_pid

    place = ServicePlace(config=str(folder), directory=directory)
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
    found = [each for each in lists.get(kind, ()) if name in ("*", each["name"])]
    if not found:
        kinds = ", ".join(lists)
        raise NotFound(f"there is no {only!r}; the kinds are {kinds}, and '*' is every name")
    return {f"{kind}s": {each["name"]: each for each in found}}
