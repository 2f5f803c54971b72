"""All that tasks can do, for the plans of their statements."""

from ackbus import Bus
from ackbus.schema.queries import file_of
from ackbus.schema.sqlite.transactions import without_triggers
from ackbus.tasks.board.proof import difference, store_unproven
from ackbus.tasks.records.task import NewTask
from ackbus.tasks.records.task_table import Forecasts, Landing, Landings, TaskTable
from ackbus.tasks.steps.planning import NewJob
from ackbus.tasks.steps.tasks import Tasks


def use_tasks(bus: Bus) -> None:
    """Uses every statement on the tables of tasks."""
    tasks = Tasks(bus)
    for name in ("t-1", "t-2"):
        task = tasks.assign(_new(name), agent="lead")
        tasks.start(name, agent="worker", token=task.token)
        tasks.done(name, agent="worker", token=task.token, head="1" * 40)
    tasks.land("t-1", attempt=1, agent="integrator", commit="2" * 40)
    tasks.mark_cleaned("t-1")
    tasks.assign(_new("t-3", depends_on=("t-1", "t-2")), agent="lead")
    tasks.plan([NewJob(task="t-4"), NewJob(task="t-5", depends_on=("t-4",))], agent="planner")
    tasks.assign(_new("t-4"), agent="lead")
    tasks.cancel("t-4", agent="lead")
    tasks.list(states=("COMPLETED",), worker="worker", limit=1)
    tasks.list(is_ready=True)
    tasks.settle_lost()
    tasks.settle_deadlines()
    TaskTable.of(bus).landed_as("2" * 40)
    assert difference(bus).lost == ()
    with bus.transaction(), without_triggers(file_of(bus).connection):
        store_unproven(bus, (tasks.get("t-4"),))
    tasks.confirm("t-4", agent="ann")
    forecasts = Forecasts.of(bus)
    forecasts.note({("1" * 40, "2" * 40): ("a",)})
    forecasts.known([("1" * 40, "2" * 40)])
    _land(Landings.of(bus))


def _land(landings: Landings) -> None:
    landing = Landing(
        seq=1,
        completion_seq=1,
        repository="/repository/.git",
        target="main",
        task="t-1",
        attempt=1,
        branch="worker/t-1",
        head="1" * 40,
        onto="3" * 40,
        candidate="2" * 40,
        tree="4" * 40,
        patch_id="5" * 40,
        checks=(),
        state="intended",
        intended_at_ms=0,
    )
    landings.add(landing)
    landings.open(landing.repository, landing.target)
    landings.undecided()
    landings.end(landing.seq, "landed", 1)
    landings.of_head(landing.repository, landing.target, landing.head)
    landings.of_commits(landing.repository, landing.target, [landing.candidate])
    landings.of_task("t-1")


def _new(name: str, depends_on: tuple[str, ...] = ()) -> NewTask:
    return NewTask(
        task=name,
        worker="worker",
        branch=f"worker/{name}",
        path=f"/trees/{name}",
        repository="/repository/.git",
        base_ref="main",
        base="1" * 40,
        target="main",
        review="none",
        depends_on=depends_on,
    )
