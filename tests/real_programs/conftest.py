"""A program that is there, the model before which it is driven, and the person who has it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .person import DRIVEN, FOLDER, Person
from .scripted_model import Call, ScriptedModel, scripted_model


@pytest.fixture(params=DRIVEN)
def name(request: pytest.FixtureRequest) -> str:
    """The name of a program that is there."""
    if not shutil.which(str(request.param), path=FOLDER):
        pytest.skip(f"{request.param} is not there; see `make programs`")
    return str(request.param)


@pytest.fixture
def model(call: Call) -> Iterator[ScriptedModel]:
    with scripted_model(call) as model:
        yield model


@pytest.fixture
def person(name: str, project: Path, bus_env: dict[str, str], model: ScriptedModel) -> Person:
    return Person(project, Path(bus_env["HOME"]), DRIVEN[name], {"model": model.url})
