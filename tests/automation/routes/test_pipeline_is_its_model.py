"""Pipelines that are drawn at random run as the plain model says, though ends are rolled back."""

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from ackbus import Bus
from ackbus.automation.config.models import Condition, Pipeline, PipelineStep
from ackbus.automation.config.values import Frozen
from ackbus.automation.jobs.plugin_run import PluginJob, RunEnd
from ackbus.automation.records.facts import JobLog
from ackbus.automation.routes.router import Router
from ackbus.automation.routes.runs import RunJob, RunTree

from ...sizes import size
from ..conftest import Folder
from .by_hand import ByHand, event, failure, success, with_plugins
from .pipeline_model import ANSWERS, PipelineModel, answer

pytestmark = pytest.mark.slow

#: Larger runs say no more.
MAX_JOBS = 30


class RolledBack(Exception):
    pass


@pytest.fixture(scope="module")
def hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ByHand]:
    path: Path = tmp_path_factory.mktemp("model")
    with Bus.init(path / "bus") as bus:
        yield ByHand(bus, with_plugins(Folder(path / "config"), "", "".join(ANSWERS)))


conditions = (
    st.none()
    | st.none()
    | st.builds(Condition, path=st.just("payload.n"), op=st.just("gte"), value=st.integers(0, 4))
)
claims = st.sampled_from(
    [Frozen(), Frozen(), Frozen({"x": "payload.n"}), Frozen({"y": "payload.n"})]
)
remaps = st.sampled_from([Frozen(), Frozen(), Frozen({"t": "{payload.n}"})])
uses = st.builds(
    PipelineStep,
    uses=st.sampled_from(sorted(ANSWERS)),
    baggage=claims,
    with_=remaps,
    condition=conditions,
)
calls = st.builds(PipelineStep, call=st.just("called"), condition=conditions)


def _nested(inner: st.SearchStrategy[PipelineStep]) -> st.SearchStrategy[PipelineStep]:
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.builds(PipelineStep, steps=several, condition=conditions) | st.builds(
        PipelineStep, split=several, condition=conditions
    )


steps = st.recursive(uses | calls, _nested, max_leaves=6)
sequences = st.lists(steps, min_size=1, max_size=4).map(tuple)
crashes = st.sets(st.integers(0, MAX_JOBS // 2), max_size=5)
called = st.lists(uses, min_size=1, max_size=2).map(tuple)


@settings(
    max_examples=size(sample=40, whole=300),
    deadline=None,
    derandomize=True,
    print_blob=True,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(sequences, called, st.integers(0, 3), crashes)
def test_a_pipeline_runs_as_its_model(
    hand: ByHand,
    main: tuple[PipelineStep, ...],
    inner: tuple[PipelineStep, ...],
    number: int,
    crashes: set[int],
) -> None:
    pipelines = (
        Pipeline(name="main", on="begin", steps=main, max_depth=0),
        Pipeline(name="called", on="never", steps=inner, max_depth=0),
    )
    model = PipelineModel({each.name: each for each in pipelines})
    model.run("main", {"n": number})
    begins = [is_faulty for (source, _), (*_, is_faulty) in model.jobs.items() if source == ()]
    assume(begins and not any(begins) and len(model.jobs) <= MAX_JOBS)
    config = replace(hand.config, pipelines=pipelines)
    hand.router = Router(hand.bus, config, hand.plugins)
    hand.endings.use_config(config, hand.router)
    first = hand.begin("main", {"n": number})[0]
    ran = run_with_crashes(hand, crashes)
    found = [(job.plugin.name, job.message.payload, job.context, bool(job.fault)) for job in ran]
    assert in_order(found) == in_order(model.jobs.values())
    message = hand.bus.get(first)
    assert message is not None
    assert message.in_reply_to is not None
    jobs = RunTree.of(hand.bus, message.in_reply_to).jobs
    answers = [answer_of(hand.bus, job) for job in jobs if job.plugin == "core.switch"]
    assert sorted(answers) == sorted(model.answers.values())
    assert len(jobs) == len(ran) + len(answers)


def answer_of(bus: Bus, job: RunJob) -> bool:
    (entry,) = JobLog.of(bus).of_job(job.message.id)
    assert entry.answer is not None
    return bool(entry.answer["matched"])


def run_with_crashes(hand: ByHand, crashes: set[int]) -> list[PluginJob]:
    """Run all jobs; the ends of these are rolled back before they are stored again."""
    ran: list[PluginJob] = []
    while (job := hand.claim()) is not None:
        end = failure(job.fault) if job.fault else answered(job)
        if len(ran) in crashes:
            with contextlib.suppress(RolledBack), hand.bus.transaction():
                hand.endings.store(job, end)
                raise RolledBack
        hand.endings.store(job, end)
        ran.append(job)
    return ran


def in_order(jobs: Iterable[object]) -> list[str]:
    return sorted(json.dumps(job, sort_keys=True) for job in jobs)


def answered(job: PluginJob) -> RunEnd:
    events = answer(job.plugin.name, job.message.payload)
    if events is None:
        return failure()
    return success(*(event("x", payload) for payload in events))
