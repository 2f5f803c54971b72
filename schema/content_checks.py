"""The readable and the lost content of a damaged file, in words: tables, and seqs of messages."""

from __future__ import annotations

from .health import bad, ok
from .log_checks import REPAIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .health import Finding
    from .layout import Layout


def check_contents(layout: Layout) -> Finding:
    """Read a file page by page, without SQLite, and report the losses."""
    from .recovery import damage_in

    found = damage_in(layout)
    if not found:
        return ok("every row of every table can be read page by page")
    told = [str(damage) for damage in found if damage.readable]
    empty = [damage.table for damage in found if not damage.readable]
    told += [f"nothing is left of {', '.join(empty)}"] if empty else []
    return bad(f"damaged: {'; '.join(told)}", REPAIR)
