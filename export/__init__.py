"""`bus.jsonl`, its importer, and the archiver, which makes the bus file small again."""

from .exporter import Exporter, ExporterRunning
from .field_map import FieldMap
from .importer import ImportReport, import_jsonl

TYPE_CHECKING = False
if TYPE_CHECKING:
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
]


def __getattr__(name: str) -> object:
    """Load what few commands need only when it is asked for."""
    if name not in ("Archiver", "ArchiverRunning"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import archiver

    return getattr(archiver, name)
