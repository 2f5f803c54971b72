"""Paths, templates, conditions and claims, without a bus."""

import pytest

from ackbus.automation.config.models import Condition, PipelineStep
from ackbus.automation.config.values import Frozen
from ackbus.automation.routes.conditions import (
    ABSENT,
    MAX_CONTEXT_BYTES,
    FlowFault,
    context_of,
    fault_of_template,
    filled,
    holds,
    look_up,
    payload_of,
)

SCOPE = {
    "payload": {"status": "Error", "count": 3, "none": None, "list": [{"id": "a"}], "yes": True},
    "context": {"web": {"url": "https://example.org"}},
    "config": {"limit": 2},
}


def test_a_path_leads_through_objects_and_lists() -> None:
    assert look_up(SCOPE, "payload.list.0.id") == "a"
    assert look_up(SCOPE, "context.web.url") == "https://example.org"
    assert look_up(SCOPE, "payload.none") is None
    assert look_up(SCOPE, "payload.list.1") is ABSENT
    assert look_up(SCOPE, "payload.status.x") is ABSENT


def test_a_template_that_is_one_reference_keeps_the_type() -> None:
    assert filled("{payload.count}", SCOPE) == 3
    assert filled("{payload.list}", SCOPE) == [{"id": "a"}]
    assert filled("{payload.none}", SCOPE) is None


def test_a_template_with_more_is_text() -> None:
    told = filled("{payload.count}x {payload.status} {payload.yes} {payload.list}", SCOPE)
    assert told == '3x Error true [{"id":"a"}]'
    assert filled("as it is", SCOPE) == "as it is"


@pytest.mark.parametrize("template", ["{config.limit}", "{payload", "a}", "{}", "{payload. x}"])
def test_a_template_of_no_proper_form_is_refused(template: str) -> None:
    assert fault_of_template(template) is not None
    with pytest.raises(FlowFault):
        filled(template, SCOPE)


def test_a_reference_to_nothing_is_refused_and_named() -> None:
    with pytest.raises(FlowFault, match=r"payload\.missing is not there"):
        filled("{payload.missing}", SCOPE)


@pytest.mark.parametrize(
    ("payload", "path", "told"),
    [
        ({"at": 1, "level": 2}, "payload.att", "there is 'payload.at', 'payload.level'; did you"),
        ({"a": {"b": 1}}, "payload.a.x", "payload.a.x is not there; there is 'payload.a.b'"),
        ({"a": [1, 2]}, "payload.a.x", "payload.a is a list of 2, from payload.a.0 on"),
        ({"a": "secret"}, "payload.a.x.y", "payload.a is text"),
        ({}, "payload.x", "payload is empty"),
        (None, "payload.x", "payload is null"),
        (5, "payload.x", "payload is a number"),
        ({str(n): n for n in range(1000)}, "payload.x", "and 990 more"),
    ],
)
def test_a_reference_to_nothing_names_what_is_there(payload: object, path: str, told: str) -> None:
    with pytest.raises(FlowFault) as fault:
        filled(f"x {{{path}}}", {"payload": payload, "context": {}})
    assert told in str(fault.value)
    assert "secret" not in str(fault.value)
    assert len(str(fault.value)) < 1_000


HOLDS = [
    ("payload.none", "exists", None),
    ("payload.count", "eq", 3),
    ("payload.count", "eq", 3.0),
    ("payload.missing", "eq", None),
    ("payload.missing", "neq", 1),
    ("payload.count", "in", [1, 3]),
    ("payload.count", "gte", 3),
    ("payload.count", "lt", 3.5),
    ("payload.status", "contains", "RRO"),
    ("payload.status", "startswith", "err"),
    ("payload.status", "endswith", "OR"),
    ("payload.status", "regex", "E.*r"),
    ("config.limit", "gt", 1),
]
DO_NOT = [
    ("payload.missing", "exists", None),
    ("payload.yes", "eq", 1),
    ("payload.count", "eq", "3"),
    ("payload.yes", "gte", 0),
    ("payload.status", "gt", 1),
    ("payload.missing", "lt", 1),
    ("payload.count", "contains", "3"),
    ("payload.status", "regex", "rro"),
    ("payload.status", "regex", "error"),
    ("payload.status", "in", ["error"]),
]


@pytest.mark.parametrize(("path", "op", "value"), HOLDS)
def test_this_comparison_holds(path: str, op: str, value: object) -> None:
    assert holds(Condition(path=path, op=op, value=value), SCOPE)


@pytest.mark.parametrize(("path", "op", "value"), DO_NOT)
def test_this_comparison_does_not_hold(path: str, op: str, value: object) -> None:
    assert not holds(Condition(path=path, op=op, value=value), SCOPE)


def test_conditions_are_combined() -> None:
    true, false = (Condition(path="payload.count", op="eq", value=value) for value in (3, 4))
    assert holds(Condition(all=(true, Condition(not_=false))), SCOPE)
    assert not holds(Condition(all=(true, false)), SCOPE)
    assert holds(Condition(any=(false, true)), SCOPE)
    assert not holds(Condition(any=(false, false)), SCOPE)
    assert holds(None, SCOPE)


def test_with_sets_keys_of_the_payload_from_the_scope_as_it_was() -> None:
    step = PipelineStep(uses="a", with_=Frozen(count="{payload.status}", text="n={payload.count}"))
    payload = payload_of(step, SCOPE)
    assert isinstance(payload, dict)
    assert (payload["count"], payload["text"]) == ("Error", "n=3")
    assert payload["list"] == [{"id": "a"}]


def test_with_needs_a_payload_with_keys() -> None:
    step = PipelineStep(uses="a", with_=Frozen(x="y"))
    assert payload_of(step, {"payload": None, "context": {}}) == {"x": "y"}
    with pytest.raises(FlowFault, match="no object"):
        payload_of(step, {"payload": [1], "context": {}})


def test_a_claim_is_added_beside_what_is_inherited() -> None:
    step = PipelineStep(uses="a", baggage=Frozen({"web.count": "payload.count"}))
    expected = {"web": {"url": "https://example.org", "count": 3}}
    assert context_of(step, SCOPE) == expected
    assert SCOPE["context"] == {"web": {"url": "https://example.org"}}


def test_d_07_an_inherited_value_may_be_repeated_but_not_changed() -> None:
    same = PipelineStep(uses="a", baggage=Frozen({"web.url": "context.web.url"}))
    assert context_of(same, SCOPE) == SCOPE["context"]
    other = PipelineStep(uses="a", baggage=Frozen({"web.url": "payload.status"}))
    with pytest.raises(FlowFault, match=r"baggage\.web\.url: .*never changes"):
        context_of(other, SCOPE)
    below = PipelineStep(uses="a", baggage=Frozen({"web.url.host": "payload.status"}))
    with pytest.raises(FlowFault, match="never changes"):
        context_of(below, SCOPE)


def test_an_object_is_claimed_whole_under_its_namespace() -> None:
    step = PipelineStep(uses="a", baggage_from="payload.list.0", namespace="first")
    assert context_of(step, SCOPE)["first"] == {"id": "a"}
    text = PipelineStep(uses="a", baggage_from="payload.status", namespace="first")
    with pytest.raises(FlowFault, match="no object"):
        context_of(text, SCOPE)


def test_a_claim_of_nothing_is_refused() -> None:
    step = PipelineStep(uses="a", baggage=Frozen({"x": "payload.missing"}))
    with pytest.raises(FlowFault, match=r"baggage\.x: payload\.missing is not there"):
        context_of(step, SCOPE)


def test_a_context_does_not_grow_without_bound() -> None:
    step = PipelineStep(uses="a", baggage=Frozen({"x": "payload"}))
    scope = {"payload": "x" * MAX_CONTEXT_BYTES, "context": {}}
    with pytest.raises(FlowFault, match="larger"):
        context_of(step, scope)
