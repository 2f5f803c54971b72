"""Routes and pipelines: route, pipeline; and their runs: tree, cancel, repeat."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...schema.errors import InvalidInput
from ..definition import Commands, optional, optional_word
from ..options.payload import json_argument
from ..options.service import SERVICE, ServicePlace
from ..show.output import NOTHING, TIMED_OUT, Output, json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...automation.active_config import ConfigSnapshot
    from ...automation.routes.conditions import CompiledPipeline
    from ...automation.routes.preview import Replayed
    from ...automation.routes.router import Index
    from ...automation.routes.runs import RunTree

# Routes: list, and history through them.

commands = Commands()
route = commands.group("route", help="Routes: which events of plugins make which jobs.")


@route.command("list", example="bus route list")
def list_routes(place: ServicePlace = SERVICE) -> int:
    """List the routes of the configuration, in their order. Exit code 4 when there are none."""
    records: list[dict[str, object]] = [
        {
            "from": entry.source,
            "event_type": entry.event_type,
            "to": entry.to,
            "command": entry.command,
            "broadcast": entry.broadcast,
        }
        for entry in place.look().config.routes
    ]
    return place.output.results(records)


@route.command("test", example="bus route test --from 1 --config ./changed --json")
def replay(
    first: Annotated[
        int,
        typer.Option("--from", metavar="SEQ", min=1, help="The first message that is looked at."),
    ],
    changed: Annotated[
        bool, typer.Option("--changed", help="Print only events whose jobs would differ.")
    ] = False,
    place: ServicePlace = SERVICE,
) -> int:
    """List the jobs that this configuration would make of past events.

    Each event of the log is looked at by itself, beside the jobs that followed it then: `+` is one
    more, `-` one less. So is each step of a pipeline that succeeded without an event. Nothing runs
    and nothing is stored. Exit code 4 when there is none.
    """
    from ...automation.routes.preview import replayed
    from ...automation.routes.router import Router

    snapshot = place.look()
    count = 0
    with place.open() as bus:
        router = Router(bus, snapshot.config, snapshot.plugins)
        for event in replayed(bus, router, first):
            if not changed or event.added or event.dropped:
                count += 1
                place.output.result(event.record(), *_lines(event))
    return 0 if count else NOTHING


def _lines(event: Replayed) -> list[str]:
    unchanged = [target for target in event.would if target not in event.added]
    marked = [(" ", unchanged), ("+", event.added), ("-", event.dropped)]
    lines = [f"{event.message.seq} {event.source} {event.event_type}"]
    for mark, targets in marked:
        for plugin, command, name, step in targets:
            of_step = f" ({name}: {step})" if name else ""
            lines.append(f"  {mark} {plugin}.{command}{of_step}")
    return lines + [f"  ! {fault}" for fault in event.faults]


pipeline = commands.group("pipeline", help="Pipelines: steps that follow events; and their runs.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the pipeline.")]
JobId = Annotated[
    str, typer.Argument(metavar="ID", help="The id or seq of a job, or of the event of the run.")
]
Wait = Annotated[
    bool | None,
    typer.Option(
        "--wait/--no-wait",
        help="Wait until all its jobs are over. Default: as its execution_mode says.",
        show_default=False,
    ),
]
Timeout = Annotated[
    float | None,
    optional("SECONDS", "How long to wait. Default: the pipeline's timeout.", min=0),
]


@pipeline.command("list", example="bus pipeline list")
def show_list(place: ServicePlace = SERVICE) -> int:
    """List the pipelines of the configuration. Exit code 4 when there are none."""
    pipelines = _index(place)[1].pipelines.values()
    records = [_summary(compiled) for compiled in pipelines]
    return place.output.results(records)


@pipeline.command("show", example="bus pipeline show digest --json")
def show(name: Name, place: ServicePlace = SERVICE) -> int:
    """Print a pipeline: when it begins, its steps, and their order.

    A step without an id has # and its place for a name; one of a called pipeline stands behind the
    name of the step that calls it.
    """
    from ...automation.routes.preview import steps_of

    compiled = _index(place)[1].pipeline(name)
    steps = steps_of(compiled)
    summary = _summary(compiled)
    lines = [" ".join(f"{key}={value}" for key, value in summary.items() if value is not None)]
    lines += [f"  {_step_line(step)}" for step in steps]
    place.output.result(summary | {"steps": steps}, *lines)
    return 0


@pipeline.command("run", example="""bus pipeline run digest --payload '{"day": 1}' --wait""")
def run(
    name: Name,
    payload: Annotated[
        str | None,
        optional(
            "JSON", "The payload of its event, - for stdin, or @FILE. Default: {}.", "--payload"
        ),
    ] = None,
    wait: Wait = None,
    timeout: Timeout = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, and run nothing.")
    ] = False,
    place: ServicePlace = SERVICE,
) -> int:
    """Run a pipeline by the service.

    It prints the id of its first job; with --wait, or for a synchronous pipeline, the tree of all
    its jobs, and with --json its result: that of the last step, or a map by step id. Exit code 1
    when a job failed, 5 when the time was over first: the run goes on; 4 when no service runs to
    wait for: the run waits for one.
    """
    place.refuse_found()
    snapshot, index = _index(place)
    compiled = index.pipeline(name)
    body = {} if payload is None else json_argument(payload, "--payload")
    if dry_run:
        return _show_preview(place.output, snapshot, compiled, body)
    is_to_wait = compiled.pipeline.execution_mode == "synchronous" if wait is None else wait
    limit_s = compiled.pipeline.timeout_s if timeout is None else timeout
    return _run(place, snapshot, compiled, body, limit_s if is_to_wait else None)


@pipeline.command("graph", example="bus pipeline graph digest > digest.mmd")
def graph(
    name: Annotated[
        str | None, optional_word("NAME", "The pipeline. Default: all, and all routes.")
    ] = None,
    place: ServicePlace = SERVICE,
) -> int:
    """Draw a pipeline as a flowchart.

    The text is for Mermaid, which GitHub draws in a block of the language mermaid. What a pipeline
    calls is written out.
    """
    from ...automation.routes.preview import flowchart

    snapshot, index = _index(place)
    if name is None:
        text = flowchart(index.pipelines.values(), snapshot.config.routes)
    else:
        text = flowchart([index.pipeline(name)])
    if place.output.is_json:
        place.output.json_line({"pipeline": name, "mermaid": text})
    else:
        place.output.body(text)
    return 0


@pipeline.command("tree", example="bus pipeline tree 0198c0de-0000-7000-8000-000000000001")
def tree(job: JobId, place: ServicePlace = SERVICE) -> int:
    """Print the jobs of a run as a tree, each with its state. 'bus trace' prints all messages."""
    from ...automation.routes.runs import RunTree

    with place.open() as bus:
        _show_tree(place.output, RunTree.of(bus, job))
    return 0


@pipeline.command("cancel", example="bus pipeline cancel 0198c0de-0000-7000-8000-000000000001")
def cancel(
    job: JobId,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, on record.")] = (
        "its run was cancelled"
    ),
    place: ServicePlace = SERVICE,
) -> int:
    """Cancel all jobs of a run that are not over, at once.

    What runs is ended. Exit code 4 when all were over.
    """
    from ...automation.routes.runs import cancel as cancel_tree

    with place.open() as bus:
        jobs = cancel_tree(bus, job, why)
    records: list[dict[str, object]] = [
        {"job_id": cancelled.message.id, "plugin": cancelled.plugin, "command": cancelled.command}
        for cancelled in jobs
    ]
    return place.output.results(records)


@pipeline.command("repeat", example="bus pipeline repeat 0198c0de-0000-7000-8000-000000000001")
def repeat(
    job: Annotated[str, typer.Argument(metavar="ID", help="The id or seq of the job of a step.")],
    place: ServicePlace = SERVICE,
) -> int:
    """Run a step of a run again, with all that follows it.

    Prints the id of the job, which has the payload and the context of before, and the configuration
    of now. 'bus job retry' goes on with a job that failed instead.
    """
    from ...automation.jobs.submission import Submission
    from ...automation.routes.runs import rerun_request

    place.refuse_found()
    with place.open() as bus:
        done = Submission(bus).submit(rerun_request(bus, job))
    place.output.result({"job_id": done.job_id, "seq": done.seq}, done.job_id)
    return 0


def _run(
    place: ServicePlace,
    snapshot: ConfigSnapshot,
    compiled: CompiledPipeline,
    payload: object,
    limit_s: float | None,
) -> int:
    from ...automation.routes.router import Router
    from ...automation.routes.runs import begin_run, result_of
    from ...automation.routes.runs import wait as wait_for
    from ...automation.service_lock import is_running

    with place.open() as bus:
        router = Router(bus, snapshot.config, snapshot.plugins)
        name = compiled.pipeline.name
        run = begin_run(bus, router, name, payload, submitted_by="cli")
        jobs = run.jobs
        record: dict[str, Any] = {"job_id": jobs[0], "pipeline": name, "root": run.root}
        has_service = is_running(place.state_dir())
        if not has_service:
            place.output.note("no service runs: the run waits until 'bus automation start'")
        if limit_s is None or not has_service:
            place.output.result(record | {"status": "queued", "job_ids": jobs}, jobs[0])
            return 0 if limit_s is None else NOTHING
        ended = wait_for(bus, run.root, limit_s)
        outcome: dict[str, Any] = {"status": ended.state, "timeout_exceeded": not ended.is_over}
        if ended.is_over:
            outcome["result"] = result_of(bus, run, compiled, ended)
    _show_tree(place.output, ended, record | outcome)
    if not ended.is_over:
        place.output.note(f"it runs on: see 'bus pipeline tree {jobs[0]}'")
        return TIMED_OUT
    return 0 if ended.state == "succeeded" else 1


def _show_preview(
    output: Output, snapshot: ConfigSnapshot, compiled: CompiledPipeline, payload: object
) -> int:
    from ...automation.routes.preview import preview

    forecast = preview(snapshot.config, compiled, payload)
    lines = [
        f"would begin with {step['step']}: {step['plugin']}.{step['command']}"
        f" {json_text(step['payload'])}"
        for step in forecast.begins
    ]
    lines += [f"then {_step_line(step)}" for step in forecast.then]
    faults = [f"step {step['step']}: {step['fault']}" for step in forecast.begins if step["fault"]]
    name = compiled.pipeline.name
    if faults:
        raise InvalidInput(f"pipeline {name!r} can't begin: {'; '.join(faults)}")
    if not forecast.begins:
        raise InvalidInput(f"pipeline {name!r} has nothing to run for this payload")
    output.result({"pipeline": name, "dry_run": True} | forecast.record(), *lines)
    return 0


def _show_tree(output: Output, tree: RunTree, record: dict[str, Any] | None = None) -> None:
    lines = []
    for job in tree.jobs:
        fields = job.record()
        step = f" {fields['step']}" if fields["step"] else ""
        error = f": {fields['error']}" if fields["error"] else ""
        ran = f"{fields['plugin']}.{fields['command']}"
        lines.append(f"{'  ' * job.depth}{fields['status']}{step} {ran} {fields['job_id']}{error}")
    output.result((record or {}) | tree.record(), *lines)


def _step_line(step: dict[str, Any]) -> str:
    then = f" -> {', '.join(step['then'])}" if step["then"] else ""
    return f"{step['step']}: {step['plugin']}.{step['command']}{then}"


def _summary(compiled: CompiledPipeline) -> dict[str, object]:
    pipeline = compiled.pipeline
    return {
        "pipeline": pipeline.name,
        "on": pipeline.on or pipeline.on_hook,
        "from_plugin": pipeline.from_plugin,
        "execution_mode": pipeline.execution_mode,
        "timeout_s": pipeline.timeout_s,
        "jobs": len(compiled.jobs),
        "hops": compiled.hops(),
    }


def _index(place: ServicePlace) -> tuple[ConfigSnapshot, Index]:
    from ...automation.routes.router import Index

    snapshot = place.look()
    return snapshot, Index(snapshot.config)
