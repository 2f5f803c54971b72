"""`bus.jsonl` in git: the set of all messages there, each bus's own file in the folder.

Git knows the messages without `seq`, by id, in order of time. Drivers stand between the two forms:
`clean` on the way in, `merge` between branches. `History` reads what commits have added.
"""

from .clean import clean
from .drivers import Setup
from .history import Commit, Filters, traffic
from .lines import messages_in, records
from .merge import Merged, merge

__all__ = [
    # what git runs
    "Merged",
    "clean",
    "merge",
    "messages_in",
    "records",
    # what people run
    "Commit",
    "Filters",
    "Setup",
    "traffic",
]
