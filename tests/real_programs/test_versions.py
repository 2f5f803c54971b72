"""Issue 32, item 3: each program in its pinned and its newest version, each with two models.

One turn of an agent: what its model was sent is looked at, and compared with what is known of the
versions before. `ACKBUS_CAPTURES=1` writes it down.
"""

import json
import shutil
from itertools import product
from pathlib import Path

import pytest

from ackbus import Bus, Draft

from ..conftest import RunBus, wait_until
from .capturing import capture_of, changes_of, faults_of, known_captures, write
from .person import DRIVEN, FOLDER, NEWEST, Person
from .roles import results_in
from .scripted_model import Call, ScriptedModel
from .test_real_programs import TURN, publishing

pytestmark = pytest.mark.slow

#: What has no model of its own choice here: it takes one of the provider that its person has named.
WITHOUT_DEFAULT = {"copilot", "opencode"}


@pytest.fixture
def call() -> Call:
    """Read one message, so that the hook after it has another one to tell of."""
    return Call("bus_inbox", {"limit": 1})


@pytest.fixture(params=[*product(DRIVEN, ["pinned", "newest"], ["tests", "default"])], ids="-".join)
def variant(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    """A program, a version of it that is there, and a model that it has."""
    program, version, model_name = request.param
    driven = DRIVEN[program]
    if not shutil.which(program, path=FOLDER if version == "pinned" else NEWEST):
        pytest.skip(f"{program} is not there in this version; see `make programs`")
    if model_name == "default" and program in WITHOUT_DEFAULT:
        pytest.skip(f"{program} has no model without a person's choice")
    if model_name == "tests" and program not in WITHOUT_DEFAULT and driven == driven.by_default:
        pytest.skip(f"{program} is driven with its default model")
    return program, version, model_name


@pytest.fixture
def user(
    variant: tuple[str, str, str],
    project: Path,
    bus_env: dict[str, str],
    model: ScriptedModel,
    bus: Bus,
    run_bus: RunBus,
) -> Person:
    """The person who has the program, set up for the agent `me`, who has joined."""
    program, version, model_name = variant
    driven = DRIVEN[program] if model_name == "tests" else DRIVEN[program].by_default
    folder = FOLDER if version == "pinned" else NEWEST
    assert run_bus("setup", program, "--agent", "me").code == 0
    bus.heartbeats.beat("me")
    return Person(project, Path(bus_env["HOME"]), driven, {"model": model.url}, folder)


def take_a_turn(user: Person, model: ScriptedModel, *, requests: int) -> None:
    """Takes one turn of the program; its model is asked so often, or more often."""
    with user.server():
        said = user.run(user.driven.turn)
        if user.driven.server:
            wait_until(lambda: len(model.asked) >= requests, 60)
    assert len(model.asked) >= requests, said


@pytest.mark.timeout(600)
def test_turn_is_as_known(
    variant: tuple[str, str, str], user: Person, model: ScriptedModel, bus: Bus, run_bus: RunBus
) -> None:
    program, _, model_name = variant
    bus.publish("news", "early", from_agent="lead", to_agent="me")
    model.before_call = publishing(run_bus, "late")
    take_a_turn(user, model, requests=TURN)
    assert len(model.asked) == TURN
    capture = capture_of(program, user.run([program, "--version"]), model_name, model.asked)
    write(capture)
    assert faults_of(capture) == []
    if capture["deferred"]:  # the start text names the tool as this program calls it
        assert capture["named"] in json.dumps(model.asked[0]["input"][1:])
    assert changes_of(capture, known_captures()) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("call", [Call("bus_inbox", {})])
def test_full_page_comes_to_the_model_whole(user: Person, model: ScriptedModel, bus: Bus) -> None:
    """Issue 32, item 4: no program cuts a page, so what its hook and the bus take as shown is.

    What a program cuts has no sign of it that our server or hook is told, so nothing may be cut.
    """
    bus.publish_many(
        Draft(
            "news", f"first {seq}. {'工作 word ' * 40}last {seq}.", from_agent="lead", to_agent="me"
        )
        for seq in range(1, 41)
    )
    take_a_turn(user, model, requests=2)
    results = json.dumps(results_in(model.asked[1]), ensure_ascii=False)
    shown = [seq for seq in range(1, 41) if f"first {seq}." in results]
    assert shown == [seq for seq in range(1, 41) if f"last {seq}." in results]
    assert shown == [*range(1, len(shown) + 1)]
    assert 3 <= len(shown) < 40, "a page that is full"
    assert f"bus_ack(seq={len(shown)})" in results
