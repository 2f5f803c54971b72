"""The cache: never out of date, no secret in it, nobody else's words."""

import os
import stat
from pathlib import Path

import pytest

from ackbus.automation.config.files import cache, yaml_tree
from ackbus.automation.config.files.cache import MAX_ENTRIES, TreeCache
from ackbus.automation.config.files.reading import hash_of

from ..conftest import Folder

ROUTES = "".join(
    f"  - from: plugin-{n % 50}\n    event_type: some.event.{n}\n    to: target-{n % 40}\n"
    for n in range(2000)
)


@pytest.fixture
def large(folder: Folder) -> Folder:
    """A configuration of 2,000 routes."""
    return folder.write(config="include: [routes.yaml]\n", routes=f"routes:\n{ROUTES}")


def test_a_configuration_is_the_same_from_the_cache(large: Folder, tmp_path: Path) -> None:
    fresh = large.load(cache=tmp_path / "cache")
    assert len(fresh.routes) == 2000
    assert large.load(cache=tmp_path / "cache") == large.load() == fresh


def test_places_are_the_same_from_the_cache(large: Folder, tmp_path: Path) -> None:
    fresh, kept = (large.load(cache=tmp_path / "cache") for _ in range(2))
    assert fresh.routes[-1].place == kept.routes[-1].place
    assert kept.routes[-1].place.line == 5999


def test_what_was_read_before_is_not_parsed_again(
    large: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []

    def parse(text: str, file: str) -> object:
        parsed.append(Path(file).name)
        return yaml_tree.parse(text, file)

    monkeypatch.setattr(cache, "parse", parse)
    large.load(cache=tmp_path / "cache")
    large.load(cache=tmp_path / "cache")
    large.write(routes=f"routes:\n{ROUTES}# changed\n")
    large.load(cache=tmp_path / "cache")
    assert parsed.count("routes.yaml") == 2


def test_a_changed_file_is_read_again(large: Folder, tmp_path: Path) -> None:
    large.load(cache=tmp_path / "cache")
    large.write(routes="routes:\n" + ROUTES.replace("target-1\n", "other\n"))
    assert "other" in {route.to for route in large.load(cache=tmp_path / "cache").routes}


def test_variables_are_not_kept_and_secrets_of_the_file_itself_neither(
    folder: Folder, tmp_path: Path
) -> None:
    def kept(config: str) -> str:
        many = "".join(f"    setting_{n}: some text of it\n" for n in range(300))
        folder.write(config=f"plugins:\n  a:\n   config:\n    {config}\n{many}")
        folder.load({"T": "secret-of-environment"}, cache=tmp_path / "cache")
        return "".join(each.read_text() for each in (tmp_path / "cache").glob("*"))

    assert "${T}" in kept("api_token: ${T}")
    assert "secret-of-environment" not in kept("api_token: ${T}")
    assert "secret-of-file" not in kept("api_token: secret-of-file")


@pytest.mark.requirement("D-153")
def test_the_cache_is_its_owners_alone(large: Folder, tmp_path: Path) -> None:
    large.load(cache=tmp_path / "cache")
    (entry,) = (tmp_path / "cache").iterdir()
    modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (tmp_path / "cache", entry)]
    assert modes == [0o700, 0o600]


def test_a_cache_that_others_can_write_is_not_read(large: Folder, tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    fresh = large.load(cache=directory)
    (entry,) = directory.iterdir()
    entry.write_text('{"m": {}}')
    assert large.load(cache=directory).routes == ()  # it is believed, as it is its owner's
    os.chmod(directory, 0o777)
    assert large.load(cache=directory) == fresh


@pytest.mark.parametrize("broken", ["", "{", '{"m": 5', "\0"])
def test_a_broken_entry_is_read_from_the_file(large: Folder, tmp_path: Path, broken: str) -> None:
    fresh = large.load(cache=tmp_path / "cache")
    (entry,) = (tmp_path / "cache").iterdir()
    entry.write_text(broken)
    assert large.load(cache=tmp_path / "cache") == fresh


def test_a_cache_that_can_not_be_made_is_none(large: Folder, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert len(large.load(cache=tmp_path / "file").routes) == 2000
    assert len(large.load(cache=tmp_path / "file/below").routes) == 2000


def test_the_newest_entries_are_kept(tmp_path: Path) -> None:
    trees = TreeCache(tmp_path / "cache")
    for number in range(MAX_ENTRIES + 5):
        data = f"a{number}: {'x' * cache.MIN_BYTES}\n".encode()
        trees.parse(data, hash_of(data), "f")
    assert len(list((tmp_path / "cache").iterdir())) == MAX_ENTRIES
