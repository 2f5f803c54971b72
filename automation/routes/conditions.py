"""Conditions of steps and pipelines, decided on payload, context and config.

Types are strict: a comparison with a value of another type, or of one that is not there, does not
hold. For `eq`, `neq` and `in`, a value that is not there is null.
"""

from __future__ import annotations

import re

from ..config.flows import AllOf, AnyOf, Not
from .scope import ABSENT, is_same, look_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config.flows import Condition, Predicate
    from .scope import Scope

_NUMERIC: dict[str, Callable[[float, float], bool]] = {
    "gt": lambda value, than: value > than,
    "gte": lambda value, than: value >= than,
    "lt": lambda value, than: value < than,
    "lte": lambda value, than: value <= than,
}

_TEXTUAL: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda value, part: part.casefold() in value.casefold(),
    "startswith": lambda value, part: value.casefold().startswith(part.casefold()),
    "endswith": lambda value, part: value.casefold().endswith(part.casefold()),
    "regex": lambda value, pattern: re.fullmatch(pattern, value) is not None,
}


def holds(condition: Condition | None, scope: Scope) -> bool:
    """Tell whether a condition holds; None always does."""
    if condition is None:
        return True
    if isinstance(condition, AllOf):
        return all(holds(each, scope) for each in condition.of)
    if isinstance(condition, AnyOf):
        return any(holds(each, scope) for each in condition.of)
    if isinstance(condition, Not):
        return not holds(condition.of, scope)
    return _compare(condition, look_up(scope, condition.path))


def _compare(predicate: Predicate, value: object) -> bool:
    op, wanted = predicate.op, predicate.value
    if op == "exists":
        return value is not ABSENT
    value = None if value is ABSENT else value
    if op == "eq":
        return _is_equal(value, wanted)
    if op == "neq":
        return not _is_equal(value, wanted)
    if op == "in":
        return isinstance(wanted, list | tuple) and any(_is_equal(value, each) for each in wanted)
    if op in _NUMERIC:
        return _is_number(value) and _is_number(wanted) and _NUMERIC[op](value, wanted)  # type: ignore[arg-type]
    return isinstance(value, str) and isinstance(wanted, str) and _TEXTUAL[op](value, wanted)


def _is_equal(value: object, wanted: object) -> bool:
    if _is_number(value) and _is_number(wanted):
        return value == wanted
    return is_same(value, wanted)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
