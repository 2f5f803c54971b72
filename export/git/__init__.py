"""All that runs git: `bus.jsonl` in it, and the guard of reserved files.

Git knows the messages without `seq`, by id, in order of time. Drivers stand between the two forms:
`clean` on the way in, `merge` between branches. `traffic` reads what commits have added.

Git starts a process for each file and each commit, so a name is loaded when it is asked for. That
only works while no module here has the same name as what it offers.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .clean_filter import clean as clean
    from .drivers import Drivers as Drivers
    from .history import Commit as Commit
    from .history import Filters as Filters
    from .history import traffic as traffic
    from .hooks import GuardHook as GuardHook
    from .hooks import GuardHooks as GuardHooks
    from .lines import records as records
    from .merge_driver import Merged as Merged
    from .merge_driver import merge as merge
    from .work_tree import WorkTree as WorkTree

__all__ = [
    # what git runs
    "Merged",
    "clean",
    "merge",
    "records",
    # what people run
    "Commit",
    "Filters",
    "Drivers",
    "traffic",
    # the guard
    "GuardHook",
    "GuardHooks",
    "WorkTree",
]

_HOMES = {
    "Commit": "history",
    "Drivers": "drivers",
    "Filters": "history",
    "GuardHook": "hooks",
    "GuardHooks": "hooks",
    "Merged": "merge_driver",
    "WorkTree": "work_tree",
    "clean": "clean_filter",
    "merge": "merge_driver",
    "records": "lines",
    "traffic": "history",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
