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
    from .git_hooks import GuardHook as GuardHook
    from .git_hooks import GuardHooks as GuardHooks
    from .git_repository import GitRepository as GitRepository
    from .git_repository import GitUnusable as GitUnusable

__all__ = [
    "Archiver",
    "ArchiverRunning",
    "ConflictMarkers",
    "Exporter",
    "ExporterRunning",
    "FieldMap",
    "GitRepository",
    "GitUnusable",
    "GuardHook",
    "GuardHooks",
    "ImportReport",
    "NotImported",
    "exported_files",
    "git",
    "import_jsonl",
    "pictures",
]

_HOMES = {
    "Archiver": "archiver",
    "ArchiverRunning": "archiver",
    "GitRepository": "git_repository",
    "GitUnusable": "git_repository",
    "GuardHook": "git_hooks",
    "GuardHooks": "git_hooks",
}


def __getattr__(name: str) -> object:
    """Load what few commands need only when it is asked for."""
    from importlib import import_module

    if name in ("git", "pictures"):
        return import_module(f".{name}", __name__)
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
