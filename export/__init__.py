"""The log in other forms: `bus.jsonl`, its way through git, the archive, backups, pictures."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import git as git
    from . import pictures as pictures
    from .archiver import Archiver as Archiver
    from .archiver import ArchiverRunning as ArchiverRunning
    from .backup import Backup as Backup
    from .backup import back_up as back_up
    from .backup import bytes_to_copy as bytes_to_copy
    from .conflict_markers import ConflictMarkers as ConflictMarkers
    from .exporter import Exporter as Exporter
    from .exporter import ExporterRunning as ExporterRunning
    from .field_map import FieldMap as FieldMap
    from .health import checks as checks
    from .importer import ImportReport as ImportReport
    from .importer import import_jsonl as import_jsonl
    from .jsonl_file import open_exported as open_exported
    from .position import Position as Position
    from .repair import repair_bus as repair_bus
    from .replaced import NotImported as NotImported
    from .replaced import exported_files as exported_files

__all__ = [
    "Archiver",
    "ArchiverRunning",
    "Backup",
    "ConflictMarkers",
    "Exporter",
    "ExporterRunning",
    "FieldMap",
    "ImportReport",
    "NotImported",
    "Position",
    "back_up",
    "bytes_to_copy",
    "checks",
    "exported_files",
    "open_exported",
    "git",
    "import_jsonl",
    "pictures",
    "repair_bus",
]

_HOMES = {
    "Archiver": "archiver",
    "ArchiverRunning": "archiver",
    "Backup": "backup",
    "ConflictMarkers": "conflict_markers",
    "Exporter": "exporter",
    "ExporterRunning": "exporter",
    "FieldMap": "field_map",
    "ImportReport": "importer",
    "NotImported": "replaced",
    "Position": "position",
    "back_up": "backup",
    "bytes_to_copy": "backup",
    "checks": "health",
    "exported_files": "replaced",
    "open_exported": "jsonl_file",
    "import_jsonl": "importer",
    "repair_bus": "repair",
}


def __getattr__(name: str) -> object:
    """Load a name on first use: the guard's hooks need nothing but `git`."""
    from importlib import import_module

    if name in ("git", "pictures"):
        return import_module(f".{name}", __name__)
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
