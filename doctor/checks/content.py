"""The readable and the lost content of a damaged file, in words: tables, and seqs of messages."""

from __future__ import annotations

from ...schema.findings import bad, ok
from ...schema.sqlite.file_checks import REPAIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.directory.layout import Layout
    from ...schema.findings import Finding


def check_contents(layout: Layout) -> Finding:
    """Read a file page by page, without SQLite, and report the losses."""
    from ..recovery.damage import damage_in

    found = damage_in(layout)
    if not found:
        return ok("every row of every table can be read page by page")
    told = [str(damage) for damage in found if damage.readable]
    empty = [damage.table for damage in found if not damage.readable]
    told += [f"nothing is left of {', '.join(empty)}"] if empty else []
    return bad(f"damaged: {'; '.join(told)}", REPAIR)
