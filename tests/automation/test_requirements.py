"""Every line of the requirements that automation is about is shown by a test that names it."""

import pytest

from . import requirements


@pytest.mark.slow
def test_every_line_in_scope_is_shown_or_on_the_list_of_those_to_come() -> None:
    tests = requirements.shown()
    left = [number for number in requirements.in_scope() if number not in tests]
    assert set(left) <= set(requirements.not_yet())


def test_the_list_of_lines_to_come_only_shrinks() -> None:
    """`python tests/automation/requirements.py --write` takes out what is shown."""
    listed = requirements.not_yet()
    assert [number for number in listed if number in requirements.shown()] == []
    assert set(listed) <= set(requirements.in_scope())


def test_every_number_that_a_test_names_is_in_a_scope() -> None:
    tests = requirements.shown()
    assert [tests[number] for number in tests if number not in requirements.in_scope()] == []
