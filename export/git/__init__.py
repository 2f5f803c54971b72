"""All that runs git: `bus.jsonl` in it, and the guard of reserved files.

Git knows the messages without `seq`, by id, in order of time. Drivers stand between the two forms:
`clean` on the way in, `merge` between branches. `traffic` reads what commits have added.

Git starts a process for each file and each commit, so a name is loaded when it is asked for. That
only works while no module here has the same name as what it offers.
"""

from ...schema import on_first_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .clean_filter import clean
    from .drivers import Drivers
    from .history import Commit, Filters, traffic
    from .hooks import GuardHook, GuardHooks
    from .lines import records
    from .merge_driver import Merged, merge
    from .work_tree import WorkTree

__all__ = [
    "Commit",
    "Drivers",
    "Filters",
    "GuardHook",
    "GuardHooks",
    "Merged",
    "WorkTree",
    "clean",
    "merge",
    "records",
    "traffic",
]

#: The names that are loaded on first use, by module.
_NAMES = {
    "clean_filter": "clean",
    "drivers": "Drivers",
    "history": "Commit Filters traffic",
    "hooks": "GuardHook GuardHooks",
    "lines": "records",
    "merge_driver": "Merged merge",
    "work_tree": "WorkTree",
}

__getattr__ = on_first_use(__name__, _NAMES)
