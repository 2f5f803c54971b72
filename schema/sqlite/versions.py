"""Other versions of the tables: the scripts that lead on from them, and what to do otherwise."""

from __future__ import annotations

import os

from ..errors import BusUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..directory.layout import Layout

#: The folder of the scripts that lead from one version to the next: `0014_verb_noun.sql` leads from
#: 13 to 14. There are none before the first release.
MIGRATIONS = os.path.join(os.path.dirname(__file__), "migrations")

#: The way from a version that no script leads on from.
_GO_OVER = (
    "it can't be upgraded: run 'bus export' with the ackbus that made it, copy bus*.jsonl and"
    " blobs to a new directory, and run init and import there with this one; cursors, jobs and"
    " tasks do not come along"
)


def version_error(layout: Layout, version: int, ours: int) -> BusUnusable:
    """Return the error for a file of an older or newer version than ours."""
    return BusUnusable(
        f"the bus in {layout.directory} has schema version {version}, and this ackbus knows version"
        f" {ours}; {upgrade_hint(version, ours)}"
    )


def upgrade_hint(version: int, ours: int) -> str:
    """Return what to do with a file of an older or newer version than ours, in words."""
    if version > ours:
        return "use a newer ackbus"
    return _GO_OVER if migrations(version, ours) is None else "run 'bus upgrade'"


def migrations(version: int, ours: int) -> list[str] | None:
    """Return the paths of the scripts that lead from a version to ours, in their order.

    Returns:
        None where a script on the way is missing, and for a newer version.
    """
    names = os.listdir(MIGRATIONS) if os.path.isdir(MIGRATIONS) else []
    later = sorted(name for name in names if int(name[:4]) > version)
    if version > ours or len(later) != ours - version:
        return None
    return [os.path.join(MIGRATIONS, name) for name in later]
