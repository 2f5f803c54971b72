"""`bus search`: what it prints for people and for programs."""

import json

import pytest

from ackbus import Bus

from ..conftest import RunBus

pytestmark = pytest.mark.usefixtures("bus_dir")


@pytest.fixture
def filled(bus: Bus) -> Bus:
    bus.publish("build.failed", {"error": "the disk is full\x1b[31m"}, from_agent="builder")
    bus.publish("note", "the disk is fine", from_agent="checker")
    return bus


@pytest.mark.usefixtures("filled")
def test_people_get_a_line_with_the_passage(run_bus: RunBus) -> None:
    """Pitfall 24: escape sequences of a body don't reach the terminal."""
    ended = run_bus("search", "disk", "full")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith("builder → all  build.failed  error the disk is full\\x1b[31m\n")


@pytest.mark.usefixtures("filled")
def test_programs_get_the_line_of_the_export_with_snippet_and_marks(run_bus: RunBus) -> None:
    ended = run_bus("search", "is full", "--json")
    found = json.loads(ended.out)
    assert (found["seq"], found["from"]) == (1, "builder")
    assert [found["snippet"][slice(*mark)] for mark in found["marks"]] == ["is full"]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("options", "seqs"),
    [
        (("disk",), [1, 2]),
        (("disk", "--limit", "1"), [2]),
        (("disk", "--type", "build.*"), [1]),
        (("disk", "--agent", "checker"), [2]),
        (("disk", "--since", "1h"), [1, 2]),
    ],
)
def test_options_narrow_the_search(
    run_bus: RunBus, options: tuple[str, ...], seqs: list[int]
) -> None:
    ended = run_bus("search", *options, "--json")
    assert sorted(json.loads(line)["seq"] for line in ended.out.splitlines()) == seqs


@pytest.mark.usefixtures("filled")
def test_nothing_found_is_4(run_bus: RunBus) -> None:
    ended = run_bus("search", "nowhere")
    assert (ended.code, ended.out) == (4, "")


def test_no_word_is_a_usage_error(run_bus: RunBus) -> None:
    ended = run_bus("search", "--", "->")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "bus: search for at least one word, such as 'bus search timeout'\n"
