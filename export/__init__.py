"""The log in other forms: `bus.jsonl` and its importer, the archive, pictures."""

from .exporter import Exporter, ExporterRunning
from .field_map import FieldMap
from .importer import ImportReport, import_jsonl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import pictures as pictures
    from .archiver import Archiver as Archiver
    from .archiver import ArchiverRunning as ArchiverRunning

__all__ = [
    "Archiver",
    "ArchiverRunning",
    "Exporter",
    "ExporterRunning",
    "FieldMap",
    "ImportReport",
    "import_jsonl",
    "pictures",
]


def __getattr__(name: str) -> object:
    """Load what few commands need only when it is asked for."""
    from importlib import import_module

    if name == "pictures":
        return import_module(".pictures", __name__)
    if name in ("Archiver", "ArchiverRunning"):
        return getattr(import_module(".archiver", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
