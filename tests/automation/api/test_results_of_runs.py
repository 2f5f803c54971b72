"""The result of a run that somebody waited for: that of its last step, or of each of its ends."""

from collections.abc import Iterator
from typing import Any

import pytest

from ackbus import Bus

from ..conftest import Folder
from .serving import API, Served, api_of

pytestmark = pytest.mark.slow

PLUGINS = ("one", "two", "three", "four")

CONFIG = """
    include: [api.yaml]
    plugin_roots: [plugins]
    plugins:
      one: {enabled: true}
      two: {enabled: true}
      three: {enabled: true}
      four: {enabled: true}
      noisy: {enabled: true}
      silent: {enabled: true, retry: {max_attempts: 1}}
      twice: {enabled: true}
      broken: {enabled: true}
    routes:
      - {from: noisy, event_type: again.please, to: four}
    pipelines:
"""

PIPELINES = """
      - {name: inner, on: inner.please, steps: [{id: a, uses: two.poll}, {id: b, uses: three}]}
      - {name: aside, on: again.please, steps: [{id: last, uses: two}, {id: b, uses: three}]}
"""

#: The steps of a pipeline, and the answer to it: `n` of the plugin that gave it.
CASES: dict[str, tuple[str, Any]] = {
    "one step": ("[{id: a, uses: one.poll}]", 1),
    "a row": ("[{id: a, uses: one.poll}, {id: b, uses: two}, {id: c, uses: three}]", 3),
    "without ids": ("[{uses: one.poll}, {uses: two}]", 2),
    "the same plugin again": ("[{id: a, uses: one.poll}, {id: b, uses: two}, {uses: one}]", 1),
    "a last step that is left out": (
        "[{id: a, uses: one.poll}, {id: b, uses: two},"
        " {id: c, uses: three, if: {path: payload.n, op: eq, value: 9}}]",
        2,
    ),
    "a middle step that is left out": (
        "[{id: a, uses: one.poll}, {id: c, uses: three},"
        " {id: b, uses: two, if: {path: payload.n, op: eq, value: 9}}, {id: d, uses: four}]",
        4,
    ),
    "two ends": (
        "[{id: a, uses: one.poll}, {split: [{id: b, uses: two}, {id: c, uses: three}]}]",
        {"b": 2, "c": 3},
    ),
    "two ends at different depths": (
        "[{id: a, uses: one.poll}, {split: [{steps: [{id: b, uses: two}, {id: d, uses: four}]},"
        " {id: c, uses: three}]}]",
        {"d": 4, "c": 3},
    ),
    "two ends of which one is left out": (
        "[{id: a, uses: one.poll}, {split: [{id: b, uses: two},"
        " {id: c, uses: three, if: {path: payload.n, op: eq, value: 9}}]}]",
        {"b": 2},
    ),
    "ends without ids": (
        "[{id: a, uses: one.poll}, {split: [{uses: two}, {uses: three}]}]",
        {"#2#1": 2, "#2#2": 3},
    ),
    "branches that meet": (
        "[{id: a, uses: one.poll}, {split: [{id: b, uses: two}, {id: c, uses: three}]},"
        " {id: d, uses: four}]",
        4,
    ),
    "a call": ("[{id: a, uses: one.poll}, {id: x, call: inner}]", 3),
    "a call among ends": (
        "[{id: a, uses: one.poll}, {split: [{id: x, call: inner}, {id: d, uses: four}]}]",
        {"x/b": 3, "d": 4},
    ),
    "events that begin a route and another pipeline": (
        "[{id: a, uses: one.poll}, {id: last, uses: noisy}]",
        5,
    ),
    "several events of one step": ("[{id: a, uses: twice.poll}, {id: b, uses: two}]", 2),
    "no JSON": ("[{id: a, uses: one.poll}, {id: b, uses: silent}]", None),
    "a failure on the way": (
        "[{id: a, uses: one.poll}, {id: b, uses: broken}, {id: c, uses: three}]",
        8,
    ),
    "a failure before one of two ends": (
        "[{id: a, uses: one.poll}, {split: [{steps: [{id: b, uses: broken},"
        " {id: c, uses: three}]}, {id: d, uses: four}]}]",
        {"b": 8, "d": 4},
    ),
}


def answering(n: int, **fields: str) -> str:
    """The program of a plugin whose answer has its number."""
    more = "".join(f', "{name}": {value}' for name, value in fields.items())
    kept = "" if "status" in fields else '"status": "ok", "result": "done", '
    return f"#!/bin/sh\ncat > /dev/null\necho '{{{kept}\"n\": {n}{more}}}'\n"


@pytest.fixture(scope="module")
def configured(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    folder = Folder(tmp_path_factory.mktemp("runs") / "folder")
    for number, name in enumerate(PLUGINS, 1):
        folder.plugin(name, run=answering(number))
    event = '[{"type": "again.please", "payload": {}}%s]'
    folder.plugin("noisy", run=answering(5, events=event % ""))
    folder.plugin("twice", run=answering(6, events=event % ', {"type": "other", "payload": {}}'))
    folder.plugin("silent", run="#!/bin/sh\ncat > /dev/null\necho it is done >&2\n")
    told = {"status": '"error"', "error": '"no"', "retry": "false"}
    folder.plugin("broken", run=answering(8, **told))
    text = CONFIG + PIPELINES
    for number, (steps, _) in enumerate(CASES.values()):
        text += (
            f"      - {{name: p{number}, on: p{number}.please, execution_mode: synchronous,"
            f" steps: {steps}}}\n"
        )
    return folder.write(api=API, config=text)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, configured: Folder) -> Iterator[Served]:
    with Bus.init(tmp_path_factory.mktemp("bus") / "bus") as bus, api_of(bus, configured) as found:
        yield found


@pytest.mark.requirement("D-113")
@pytest.mark.parametrize("case", CASES)
def test_the_result_of_a_run_is_that_of_its_last_step_or_a_map_of_its_ends(
    served: Served, case: str
) -> None:
    number, (_, expected) = [*CASES].index(case), CASES[case]
    body = served.client().post(f"/pipeline/p{number}").json()
    result, tree = body["result"], body["tree"]
    if isinstance(expected, dict):
        assert {step: answer["n"] for step, answer in result.items()} == expected
    else:
        assert (result and result["n"]) == expected
    assert tree[0]["job_id"] == body["job_id"]
