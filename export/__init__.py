"""The log in other forms: `bus.jsonl`, its way through git, the archive, backups, pictures."""

from ..schema import on_first_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import git, pictures
    from .archiver import Archiver, ArchiverRunning
    from .backup import Backup, back_up, bytes_to_copy
    from .conflict_markers import ConflictMarkers
    from .exporter import Exporter, ExporterRunning
    from .field_map import FieldMap
    from .health import checks
    from .importer import ImportReport, import_jsonl
    from .jsonl_file import open_exported
    from .position import Position
    from .repair import repair_bus
    from .replaced import NotImported, exported_files

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
    "git",
    "import_jsonl",
    "open_exported",
    "pictures",
    "repair_bus",
]

#: The names that are loaded on first use, by module (modules themselves under "").
_NAMES = {
    "": "git pictures",
    "archiver": "Archiver ArchiverRunning",
    "backup": "Backup back_up bytes_to_copy",
    "conflict_markers": "ConflictMarkers",
    "exporter": "Exporter ExporterRunning",
    "field_map": "FieldMap",
    "health": "checks",
    "importer": "ImportReport import_jsonl",
    "jsonl_file": "open_exported",
    "position": "Position",
    "repair": "repair_bus",
    "replaced": "NotImported exported_files",
}

__getattr__ = on_first_use(__name__, _NAMES)
