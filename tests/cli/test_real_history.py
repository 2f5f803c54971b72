"""A month of messages of two coding agents, shown by each command that looks back."""

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, FieldMap

from ..conftest import RunBus
from ..export.test_importer import H5I, H5I_MAP
from .clones import Clone
from .conftest import assert_error
from .git import git_env

Line = dict[str, Any]

#: How many lines the first of two commits has.
FIRST = 200


@pytest.fixture(scope="module")
def theirs() -> list[Line]:
    """The lines of the file as it came: what every command must agree with."""
    if not H5I.exists():
        pytest.skip("the real traffic, shared/data/h5i-messages.jsonl, is not beside this clone")
    return [json.loads(line) for line in H5I.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def imported(theirs: list[Line], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bus directory with all of them, which nobody has open."""
    path = tmp_path_factory.mktemp("real") / ".worker-state"
    with Bus.init(path) as bus, H5I.open("rb") as stream:
        assert bus.import_jsonl(stream, field_map=FieldMap(H5I_MAP)).stored == len(theirs)
    return path


@pytest.fixture
def real(imported: Path, project: Path, run_bus: RunBus, bus_env: dict[str, str]) -> Clone:
    """A project of one's own with a copy of that bus."""
    subprocess.run(["cp", "-R", imported, project / ".worker-state"], check=True)
    return Clone(project, run_bus, git_env(bus_env))


def records(out: str) -> list[Any]:
    return [json.loads(line) for line in out.splitlines()]


def ids(lines: list[Line]) -> list[str]:
    return [line["id"] for line in lines]


def with_word(lines: list[Line], word: str) -> list[str]:
    pattern = re.compile(rf"(?<![^\W_]){word}(?![^\W_])", re.IGNORECASE)
    return sorted(line["id"] for line in lines if pattern.search(line["body"]))


def found(real: Clone, *args: str) -> list[str]:
    return sorted(ids(records(real.bus("search", *args, "--limit", "500", "--json"))))


def test_search_finds_what_has_the_word(real: Clone, theirs: list[Line]) -> None:
    """Q-05: as many as a plain look through the file finds, also in blobs, and by filter."""
    assert found(real, "review") == with_word(theirs, "review")
    assert len(with_word(theirs, "review")) > 100
    risks = [line for line in theirs if line.get("kind") == "RISK"]
    assert found(real, "the", "--type", "RISK") == with_word(risks, "the") != []
    since = [line for line in theirs if line["ts"] >= "2026-06-10"]
    claudes = [line for line in since if "claude" in (line["from"], line["to"])]
    options = ("--agent", "claude", "--since", "2026-06-10T00:00:00Z")
    assert found(real, "tests", *options) == with_word(claudes, "tests") != []


@pytest.mark.slow
def test_archived_traffic_reads_the_same(real: Clone, theirs: list[Line]) -> None:
    """Q-06, X-20: replay, show, search, statistics and pictures go through archive and log."""
    looks = (
        ("replay", "--from", "1", "--json"),
        ("replay", "--from", "195", "--to", "205"),
        ("show", theirs[7]["id"], "--json"),
        ("read", "--type", "REVIEW_REQUEST", "--agent", "codex", "--json"),
        ("search", "protocol", "--json"),
        ("graph", "--agents"),
        ("timeline", "--json"),
    )
    before = [real.bus(*look) for look in looks]
    (archived,) = records(
        real.bus("archive", "--before", "201", "--idle-after", "0s", "--pass-over-idle", "--json")
    )
    assert (archived["messages"], archived["to"]) == (200, 200)
    assert [hold["name"] for hold in archived["passed_over"]] == ["codex", "claude"]
    assert [real.bus(*look) for look in looks] == before
    assert ids(records(before[0])) == ids(theirs)
    assert json.loads(before[2])["payload"] == theirs[7]["body"]
    stats = json.loads(real.bus("stats", "--json"))
    assert stats["by_type"] == Counter(line.get("kind", "NOTE") for line in theirs)
    assert stats["by_from"] == Counter(line["from"] for line in theirs)


def test_rotated_export_holds_every_message_once(real: Clone, theirs: list[Line]) -> None:
    """M-79, promise 8: the parts and the rest are the replay; doctor and index agree."""
    real.bus("export", "--rotate", "100kB")
    parts = json.loads((real.bus_dir / "bus.index.json").read_bytes())["parts"]
    files = [real.bus_dir / part["name"] for part in parts] + [real.jsonl]
    assert len(files) > 3
    assert max(path.stat().st_size for path in files) <= 100_000
    lines = b"".join(path.read_bytes() for path in files)
    assert lines.decode() == real.bus("replay", "--from", "1", "--json")
    left = len(real.jsonl.read_bytes().splitlines())
    assert sum(part["messages"] for part in parts) + left == len(theirs)
    assert all(each["state"] == "ok" for each in records(real.bus("doctor", "--full", "--json")))


def test_backup_is_the_same_bus(real: Clone, theirs: list[Line]) -> None:
    real.bus("archive", "--before", "101", "--idle-after", "0s", "--pass-over-idle")
    (made,) = records(real.bus("backup", "copy", "--json"))
    assert (made["messages"], made["segments"], made["lacking"]) == (len(theirs), 1, [])
    assert made["blobs"] == len(list((real.bus_dir / "blobs").iterdir())) > 10
    replay = ("replay", "--from", "1", "--json")
    assert real.bus(*replay, "--dir", "copy") == real.bus(*replay)


@pytest.mark.slow
def test_commits_show_what_was_said_before_each(repository: Clone, theirs: list[Line]) -> None:
    """Q-01: the review of a range of commits, from git alone."""
    repository.bus("setup", "git")
    for subject, part in (("first", theirs[:FIRST]), ("second", theirs[FIRST:])):
        maps = [argument for entry in H5I_MAP for argument in ("--map", entry)]
        repository.bus("import", "-", *maps, stdin="\n".join(map(json.dumps, part)))
        repository.commit(subject)
    second, first = records(repository.bus("log", "--json"))
    assert (first["subject"], ids(first["messages"])) == ("first", ids(theirs[:FIRST]))
    assert (second["subject"], ids(second["messages"])) == ("second", ids(theirs[FIRST:]))
    (only,) = records(repository.bus("log", "HEAD~1..HEAD", "--agent", "human", "--json"))
    assert ids(only["messages"]) == ids([m for m in theirs[FIRST:] if m["from"] == "human"]) != []


def test_pictures_have_every_message(real: Clone, theirs: list[Line]) -> None:
    """Issue 4, item 4: a conversation, who talks to whom, and when."""
    threads = Counter(line["thread_id"] for line in theirs if "thread_id" in line)
    ((thread, replies),) = threads.most_common(1)
    members = [line for line in theirs if thread in (line["id"], line.get("thread_id"))]
    drawn = json.loads(real.bus("graph", members[-1]["id"], "--json"))
    assert ids(drawn["messages"]) == ids(members)
    assert len(members) >= replies >= 5
    mermaid = real.bus("graph", thread)
    assert mermaid.count(">>") == len(members)
    links = json.loads(real.bus("graph", "--agents", "--json"))["links"]
    pairs = Counter((line["from"], line["to"]) for line in theirs)
    assert {(link["from"], link["to"]): link["messages"] for link in links} == pairs
    timeline = json.loads(real.bus("timeline", "--json"))
    assert (timeline["total"], ids(timeline["messages"])) == (len(theirs), ids(theirs))
    assert set(timeline["agents"]) == {name for pair in pairs for name in pair}
    assert real.bus("timeline").startswith("<svg")


def test_files_that_they_worked_on_have_one_editor(real: Clone, theirs: list[Line]) -> None:
    """Pitfall 15: whoever named a file first reserves it; the other is told who has it."""
    asked = next(line for line in theirs if len(line.get("focus", ())) > 1)
    holder, other = asked["from"], asked["to"]
    granted = json.loads(real.bus("reserve", *asked["focus"], "--agent", holder, "--json"))
    assert granted["granted"] is True
    refused = real.try_bus("reserve", "src", "--agent", other, "--json")
    assert refused.code == 3
    conflicts = json.loads(refused.out)["conflicts"]
    assert {each["held"]["path"] for each in conflicts} == set(asked["focus"])
    assert_error(real.try_bus("reserve", asked["focus"][0], "--agent", other), 3, holder)
    held = records(real.bus("reservations", "--json"))
    assert {each["path"]: each["agent"] for each in held} == dict.fromkeys(asked["focus"], holder)
    real.bus("reservations", "release", *(str(each["token"]) for each in held), "--agent", holder)
    assert json.loads(real.bus("reserve", "src", "--agent", other, "--json"))["granted"] is True
