"""The log in other forms: `bus.jsonl`, its importer and its way through git, archive, pictures."""

from .exporter import Exporter, ExporterRunning
from .field_map import FieldMap
from .importer import ConflictMarkers, ImportReport, import_jsonl
from .replaced import NotImported, exported_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import git as git
    from . import pictures as pictures
    from .archiver import Archiver as Archiver
    from .archiver import ArchiverRunning as ArchiverRunning

__all__ = [
    "Archiver",
    "ArchiverRunning",
    "ConflictMarkers",
    "Exporter",
    "ExporterRunning",
    "FieldMap",
    "ImportReport",
    "NotImported",
    "exported_files",
    "git",
    "import_jsonl",
    "pictures",
]


def __getattr__(name: str) -> object:
    """Load what few commands need only when it is asked for."""
    from importlib import import_module

    if name in ("git", "pictures"):
        return import_module(f".{name}", __name__)
    if name in ("Archiver", "ArchiverRunning"):
        return getattr(import_module(".archiver", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
