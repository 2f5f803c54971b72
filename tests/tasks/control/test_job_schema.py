"""The strict form of jobs that change files."""

from typing import Any

import pytest

from ackbus.errors import InvalidInput
from ackbus.tasks.control.jobs import JobQueue, check_params

from .conftest import add

GOOD: dict[str, Any] = {
    "schemaVersion": 2,
    "lane": "worker",
    "instruction": "mend it",
    "planning": {
        "intent": "a fix",
        "scope": {"writeGlobs": ["src/*"]},
        "acceptanceCriteria": ["the tests pass"],
        "validationSteps": [],
        "executionBudgetMs": 60_000,
    },
}

BAD = {
    "schemaVersion": (1, "2", None, True),
    "lane": ("fast", None, 3),
    "instruction": ("", None, 1, " "),
    "planning": (None, [], "x"),
    "planning.intent": (None, ""),
    "planning.scope": (None, []),
    "planning.acceptanceCriteria": (None, [], "x"),
    "planning.acceptanceCriteria[0]": ([""], [1]),
    "planning.validationSteps": (None, {}),
    "planning.executionBudgetMs": (0, "1", -1, True),
}


def changed(field: str, value: object) -> dict[str, Any]:
    """The good params with another value in one field."""
    params = {**GOOD, "planning": dict(GOOD["planning"])}
    *outer, name = field.removesuffix("[0]").split(".")
    (params[outer[0]] if outer else params)[name] = value
    return params


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in BAD.items() for value in values]
)
def test_u_71_a_fault_names_its_field_and_leaves_no_row(
    jobs: JobQueue, field: str, value: object
) -> None:
    """U-71: four bad jobs, and more."""
    with pytest.raises(InvalidInput) as caught:
        add(jobs, params=changed(field, value))
    assert str(caught.value).startswith(f"params.{field} must be ")
    assert jobs.entries.list() == []


def test_u_71_a_job_of_the_form_is_taken(jobs: JobQueue) -> None:
    """U-71: and other kinds, or none of a version, have no such form."""
    check_params(GOOD)
    add(jobs, params=GOOD)
    add(jobs, params={"schemaVersion": 1}, kind="chat")
    add(jobs, params={"text": "mend it"})
    assert len(jobs.entries.list()) == 3
