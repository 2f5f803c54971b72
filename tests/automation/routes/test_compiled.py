"""Pipelines as they run: their graph, and what is refused before they do."""

from textwrap import indent

import pytest

from ackbus.automation.routes.conditions import (
    CompiledPipeline,
    Gate,
    JobNode,
    Node,
    faults_of_pipelines,
)
from ackbus.automation.routes.router import Index
from ackbus.schema.errors import NotFound

from ..conftest import Folder

_PLUGINS = "".join(f"  {name}: {{}}\n" for name in "abcde")


def configured(folder: Folder, pipelines: str) -> Folder:
    """Write a configuration with these pipelines; the plugins are a to e."""
    text = f"plugins:\n{_PLUGINS}pipelines:\n{indent(pipelines, '  ')}"
    folder.write_as("config.yaml", text)
    return folder


def compiled(folder: Folder, pipelines: str, name: str = "p") -> CompiledPipeline:
    return Index(configured(folder, pipelines).load()).pipelines[name]


def told(folder: Folder, pipelines: str) -> list[str]:
    config = configured(folder, pipelines).load()
    return [f"{fault.path}: {fault.message}" for fault in faults_of_pipelines(config)]


def ways(nodes: tuple[Node, ...]) -> dict[str, object]:
    """Return a graph as nested objects: each step, and what follows it."""
    found: dict[str, object] = {}
    for node in nodes:
        if isinstance(node, JobNode):
            found[node.key] = ways(node.then)
        else:
            found[f"{node.key}?"] = [ways(node.inside), ways(node.otherwise)]
    return found


def test_steps_follow_one_another(folder: Folder) -> None:
    found = compiled(folder, "- {name: p, on: e, steps: [{uses: a}, {id: x, uses: b.poll}]}")
    assert ways(found.entries) == {"#1": {"x": {}}}
    assert [(job.step.plugin, job.step.command) for job in found.jobs.values()] == [
        ("a", "handle"),
        ("b", "poll"),
    ]


@pytest.mark.requirement("Q-27")
def test_what_follows_a_split_follows_each_branch(folder: Folder) -> None:
    found = compiled(
        folder,
        """\
- name: p
  on: e
  steps:
    - split:
        - uses: a
        - steps: [{uses: b}, {uses: c}]
    - {id: last, uses: d}
""",
    )
    assert ways(found.entries) == {"#1#1": {"last": {}}, "#1#2#1": {"#1#2#2": {"last": {}}}}
    assert found.hops() == 3
    assert list(found.jobs) == ["#1#1", "#1#2#1", "#1#2#2", "last"]


@pytest.mark.requirement("Q-27")
def test_a_call_is_written_out_with_what_follows_it(folder: Folder) -> None:
    found = compiled(
        folder,
        """\
- name: p
  on: e
  steps: [{id: one, call: q}, {call: q}, {id: last, uses: c}]
- name: q
  on: f
  steps: [{id: x, uses: a}, {uses: b}]
""",
    )
    inner = {"#2/x": {"#2/#2": {"last": {}}}}
    assert ways(found.entries) == {"one/x": {"one/#2": inner}}


@pytest.mark.requirement("Q-27")
def test_a_step_with_a_condition_is_left_out_alone(folder: Folder) -> None:
    found = compiled(
        folder,
        """\
- name: p
  on: e
  steps:
    - {id: x, uses: a, if: {path: payload.n, op: exists}}
    - {id: y, uses: b}
""",
    )
    assert ways(found.entries) == {"x?": [{"x": {"y": {}}}, {"y": {}}]}
    (gate,) = found.entries
    assert isinstance(gate, Gate)
    assert gate.plugin == "a"


@pytest.mark.requirement("Q-27")
def test_calls_in_a_circle_are_refused_with_the_circle(folder: Folder) -> None:
    found = told(
        folder,
        """\
- {name: p, on: e, steps: [{call: q}]}
- {name: q, on: f, steps: [{uses: a}, {split: [{call: r}]}]}
- {name: r, on: g, steps: [{call: p}]}
""",
    )
    assert len(found) == 3
    assert found[0] == (
        "pipelines[0].steps[0]: the calls never end: p calls q calls r calls p;"
        " use an event instead"
    )


@pytest.mark.parametrize("outcome", ["true", "false"])
def test_a_pipeline_that_its_own_condition_begins_is_refused(folder: Folder, outcome: str) -> None:
    asked = "if: {path: payload.n, op: exists}"
    begins = f"- {{name: p, on: ductile.switch.{outcome}, steps: ["
    q = f"- {{name: q, on: f, steps: [{{uses: a, {asked}}}]}}"
    for steps in (
        f"{{uses: a, {asked}}}",
        f"{{split: [{{uses: a}}, {{uses: b, {asked}}}]}}",
        "{call: q}",
    ):
        (found,) = told(folder, f"{begins}{steps}]}}\n{q}")
        assert found.startswith(f"pipelines[0]: it begins with ductile.switch.{outcome} and asks")
    assert told(folder, f"{begins}{{uses: a}}, {{uses: b, {asked}}}]}}") == []
    assert told(folder, f"{begins}{{uses: a}}], {asked}}}") == []


def test_a_pipeline_that_calls_itself_is_refused(folder: Folder) -> None:
    (found,) = told(folder, "- {name: p, on: e, steps: [{call: p}]}")
    assert "p calls p" in found


def test_a_call_of_nothing_is_refused_with_a_near_name(folder: Folder) -> None:
    found = told(
        folder,
        """\
- {name: summary, on: e, steps: [{uses: a}]}
- {name: p, on: f, steps: [{call: sumary}]}
""",
    )
    assert found == [
        "pipelines[1].steps[0]: there is no pipeline 'sumary'; did you mean 'summary'?"
    ]


def steps(count: int) -> str:
    return f"[{', '.join(['{uses: a}'] * count)}]"


def test_d_109_more_than_20_hops_are_refused(folder: Folder) -> None:
    assert told(folder, f"- {{name: p, on: e, steps: {steps(20)}}}") == []
    (found,) = told(folder, f"- {{name: p, on: e, steps: {steps(21)}}}")
    assert "21 steps follow one another, and 20 may; write max_depth: 21" in found
    assert told(folder, f"- {{name: p, on: e, max_depth: 21, steps: {steps(21)}}}") == []
    assert told(folder, f"- {{name: p, on: e, max_depth: 0, steps: {steps(30)}}}") == []


def test_calls_that_grow_without_bound_are_refused(folder: Folder) -> None:
    """Each pipeline calls the next one twice: written out, the first has 2^18 steps."""
    many = "".join(
        f"- {{name: p{n}, on: e, steps: [{{split: [{{call: p{n + 1}}}, {{call: p{n + 1}}}]}}]}}\n"
        for n in range(18)
    )
    found = told(folder, f"{many}- {{name: p18, on: e, steps: [{{uses: a}}]}}")
    assert any("pipelines[0]: it has more than 1000 steps" in each for each in found)


def test_calls_that_are_nested_too_deep_are_refused(folder: Folder) -> None:
    many = "".join(f"- {{name: p{n}, on: e, steps: [{{call: p{n + 1}}}]}}\n" for n in range(60))
    found = told(folder, f"{many}- {{name: p60, on: e, steps: [{{uses: a}}]}}")
    assert len(found) == 40
    assert found[0] == "pipelines[0]: its calls are nested more than 20 deep"


def test_a_template_of_no_proper_form_is_a_fault_of_the_configuration(folder: Folder) -> None:
    (found,) = told(folder, "- {name: p, on: e, steps: [{uses: a, with: {x: '{config.y}'}}]}")
    assert found.startswith("pipelines[0].steps[0]: with.x: {config.y} names nothing")


def test_a_pipeline_that_is_not_there_is_refused_with_the_nearest_name(folder: Folder) -> None:
    index = Index(configured(folder, "- {name: digest, on: e, steps: [{uses: a}]}").load())
    assert index.pipeline("digest").pipeline.name == "digest"
    with pytest.raises(NotFound, match="no pipeline 'digets'; did you mean 'digest'"):
        index.pipeline("digets")
