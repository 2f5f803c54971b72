"""Issue 32, item 3: each program in its pinned and its newest version, each with two models.

One turn of an agent: what its model was sent is looked at, and compared with what is known of the
versions before. `ACKBUS_CAPTURES=1` writes it down.
"""

import json
import shutil
from itertools import product
from pathlib import Path

import pytest

from ackbus import Bus

from ..conftest import RunBus, wait_until
from .capturing import capture_of, changes_of, faults_of, known_captures, write
from .person import DRIVEN, FOLDER, NEWEST, Person
from .scripted_model import Call, ScriptedModel
from .test_real_programs import TURN, publishing

pytestmark = pytest.mark.slow

#: What has no model of its own choice here: it takes one of the provider that its person has named.
WITHOUT_DEFAULT = {"copilot", "opencode"}


@pytest.fixture
def call() -> Call:
    """Read one message, so that the hook after it has another one to tell of."""
    return Call("bus_inbox", {"limit": 1})


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("program", "version", "model_name"),
    [*product(DRIVEN, ["pinned", "newest"], ["tests", "default"])],
)
def test_turn_is_as_known(
    program: str,
    version: str,
    model_name: str,
    project: Path,
    bus_env: dict[str, str],
    model: ScriptedModel,
    bus: Bus,
    run_bus: RunBus,
) -> None:
    folder = FOLDER if version == "pinned" else NEWEST
    if not shutil.which(program, path=folder):
        pytest.skip(f"{program} is not there in this version; see `make programs`")
    driven = DRIVEN[program]
    if model_name == "default" and program in WITHOUT_DEFAULT:
        pytest.skip(f"{program} has no model without a person's choice")
    if model_name == "tests" and program not in WITHOUT_DEFAULT and driven == driven.by_default:
        pytest.skip(f"{program} is driven with its default model")
    driven = driven if model_name == "tests" else driven.by_default
    person = Person(project, Path(bus_env["HOME"]), driven, {"model": model.url}, folder)
    assert run_bus("setup", program, "--agent", "me").code == 0
    bus.heartbeats.beat("me")
    bus.publish("news", "early", from_agent="lead", to_agent="me")
    model.before_call = publishing(run_bus, "late")
    with person.server():
        said = person.run(person.driven.turn)
        if person.driven.server:
            wait_until(lambda: len(model.asked) == TURN, 60)
    assert len(model.asked) == TURN, said
    capture = capture_of(program, person.run([program, "--version"]), model_name, model.asked)
    write(capture)
    assert faults_of(capture) == []
    if capture["deferred"]:  # the start text names the tool as this program calls it
        assert capture["named"] in json.dumps(model.asked[0]["input"][1:])
    assert changes_of(capture, known_captures()) == []
