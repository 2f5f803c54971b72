"""What a damaged file still has, in words: which tables, and of messages which seqs."""

from __future__ import annotations

from .health import bad, ok
from .log_checks import REPAIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .health import Finding
    from .layout import Layout


def check_contents(layout: Layout) -> Finding:
    """Read a file page by page, whatever SQLite says of it, and tell what of it is lost."""
    from .recovery import damage_in

    found = damage_in(layout)
    if not found:
        return ok("every row of every table can be read page by page")
    whole = [damage for damage in found if damage.readable]
    text = f"damaged: {', '.join(map(str, whole))}" if whole else "no row of any table can be read"
    empty = [damage.table for damage in found if not damage.readable]
    if whole and empty:
        text += f"; nothing of {', '.join(empty)}"
    return bad(text, REPAIR)
