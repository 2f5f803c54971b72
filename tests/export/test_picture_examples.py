"""The pictures in docs/ are what the code draws."""

from pathlib import Path

import pytest

from ackbus import Bus

from . import picture_examples


def drawings() -> list[Path]:
    """The files; what else is there are pictures of the page."""
    return [path for path in picture_examples.FOLDER.iterdir() if path.suffix != ".png"]


@pytest.fixture
def drawn(bus: Bus, bus_dir: Path) -> dict[str, str]:
    picture_examples.fill(bus)
    picture_examples.beat(bus_dir)
    return picture_examples.draw(bus)


def test_the_pictures_in_docs_are_what_the_code_draws(drawn: dict[str, str]) -> None:
    kept = {path.name: path.read_text("utf-8") for path in drawings()}
    assert kept == drawn, "run: python tests/export/picture_examples.py --write"


def test_the_same_traffic_gives_the_same_bytes(bus: Bus, drawn: dict[str, str]) -> None:
    assert picture_examples.draw(bus) == drawn


def test_the_page_about_pictures_shows_them() -> None:
    page = (picture_examples.FOLDER.parent / "how-to" / "pictures.md").read_text("utf-8")
    for path in drawings():
        assert f"](../pictures/{path.name})" in page, path.name
