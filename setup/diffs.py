"""Unified diffs of two texts that differ in one place, however long they are."""

from __future__ import annotations

import difflib
import re
from itertools import takewhile

#: How many lines before and after a change are shown.
_CONTEXT = 3

#: The numbers of lines at the head of a hunk.
_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@$")


def diff_of(before: str, after: str, old: str, new: str) -> list[str]:
    """Return the lines of a unified diff; only what is between equal ends is compared.

    Args:
        before, after: the texts.
        old, new: their names.
    """
    lines, others = before.splitlines(), after.splitlines()
    head = _common(lines, others)
    shown = max(0, head - _CONTEXT)
    tail = min(_common(lines[::-1], others[::-1]), min(len(lines), len(others)) - head)
    cut = max(0, tail - _CONTEXT)
    compared = (lines[shown : len(lines) - cut], others[shown : len(others) - cut])
    diff = difflib.unified_diff(*compared, old, new, n=_CONTEXT, lineterm="")
    return [_HUNK.sub(lambda hunk: _moved(hunk, shown), line) for line in diff]


def _common(lines: list[str], others: list[str]) -> int:
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(lines, others, strict=False))
    )


def _moved(hunk: re.Match[str], by: int) -> str:
    old, new = int(hunk[1]) + by, int(hunk[3]) + by
    return f"@@ -{old}{hunk[2] or ''} +{new}{hunk[4] or ''} @@"
