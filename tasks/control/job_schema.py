"""The strict form of a job that changes files, version 2: a fault names its field."""

from __future__ import annotations

from ...schema.errors import InvalidInput, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: The kind of job that has this form, and the version of it.
KIND, VERSION = "task.execute", 2

LANES = ("deterministic", "worker")

#: The budgets that a plan may have.
_BUDGETS = ("queueWaitBudgetMs", "executionBudgetMs", "finalizationBudgetMs")


def check_params(params: Mapping[str, object]) -> None:
    """Refuse the params of a job that do not have the form.

    Raises:
        InvalidInput: the first field that is wrong is named, from `params` on.
    """
    if params.get("schemaVersion") != VERSION or params.get("schemaVersion") is True:
        raise _wrong("schemaVersion", f"{VERSION}", params.get("schemaVersion"))
    if params.get("lane") not in LANES:
        raise _wrong("lane", " or ".join(LANES), params.get("lane"))
    _check_text("instruction", params.get("instruction"))
    planning = params.get("planning")
    if not isinstance(planning, dict):
        raise _wrong("planning", "an object", planning)
    _check_text("planning.intent", planning.get("intent"))
    if not isinstance(planning.get("scope"), dict):
        raise _wrong("planning.scope", "an object", planning.get("scope"))
    _check_texts("planning.acceptanceCriteria", planning.get("acceptanceCriteria"))
    if planning.get("validationSteps") != []:
        _check_texts("planning.validationSteps", planning.get("validationSteps"))
    for name in _BUDGETS:
        budget = planning.get(name, 1)
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
            raise _wrong(f"planning.{name}", "a positive number", budget)


def check_job(kind: str, params: Mapping[str, object]) -> None:
    """Refuse a job of the kind that says a version and does not have its form.

    Raises:
        InvalidInput: as for `check_params`.
    """
    if kind == KIND and "schemaVersion" in params:
        check_params(params)


def _check_text(field: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(field, "text with something in it", value)


def _check_texts(field: str, value: object) -> None:
    if not isinstance(value, list) or not value:
        raise _wrong(field, "a list of texts, with one at least", value)
    for number, each in enumerate(value):
        _check_text(f"{field}[{number}]", each)


def _wrong(field: str, wanted: str, found: object) -> InvalidInput:
    return InvalidInput(f"params.{field} must be {wanted}, not {shown(found)}")
