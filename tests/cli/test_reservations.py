"""bus reserve, and bus reservations, renew, release."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus

from ..conftest import RunBus
from .conftest import assert_error

pytestmark = pytest.mark.usefixtures("bus_dir")

ALICE, BOB = {"BUS_AGENT": "alice"}, {"BUS_AGENT": "bob"}


def reserve(run_bus: RunBus, *args: str, cwd: Path | None = None) -> list[str]:
    """Reserves for alice; returns the paths that were granted."""
    done = run_bus("reserve", *args, "--json", env=ALICE, cwd=cwd)
    assert (done.code, done.err) == (0, "")
    return [each["path"] for each in json.loads(done.out)["reservations"]]


def listed(run_bus: RunBus, *args: str) -> list[dict[str, Any]]:
    done = run_bus("reservations", *args, "--json")
    assert done.code == (0 if done.out else 4)
    return [json.loads(line) for line in done.out.splitlines()]


def test_conflict_is_not_granted_and_has_an_exit_code_of_its_own(run_bus: RunBus) -> None:
    """PITFALLS 15, issue 4: granted false, who holds what until when, exit code 3."""
    first = run_bus("reserve", "src", "a.py", "--reason", "new routes", "--json", env=ALICE)
    granted = json.loads(first.out)
    assert (first.code, granted["granted"], granted["conflicts"]) == (0, True, [])
    held = granted["reservations"][0]
    assert list(held) == ["path", "agent", "mode", "token", "reserved", "until", "reason"]
    second = run_bus("reserve", "src/*.py", "a.py", "b.py", "--json", env=BOB)
    refused = json.loads(second.out)
    assert (second.code, refused["granted"], refused["reservations"]) == (3, False, [])
    holder = {"lives": None, "silent_since": held["reserved"]}
    assert refused["conflicts"][0] == {"path": "src/*.py", "held": held, "holder": holder}
    assert_error(
        run_bus("reserve", "src/*.py", "a.py", "b.py", env=BOB),
        3,
        f"src/*.py is reserved by alice as src until {held['until']} (exclusive, 'new routes')",
        f"; it may live, silent since {held['reserved']}",
        "(and 1 more conflict); nothing was reserved",
    )
    assert [each["agent"] for each in listed(run_bus)] == ["alice", "alice"]


def test_people_see_path_holder_mode_token_and_end(run_bus: RunBus) -> None:
    done = run_bus("reserve", "docs/*.md", "--shared", "--ttl", "2h", "--agent", "alice")
    assert done.code == 0
    assert done.out.startswith("docs/*.md  alice  shared  token 1  until 2")
    table = run_bus("reservations").out.splitlines()
    assert table[0].split() == ["path", "agent", "mode", "token", "reserved", "until", "reason"]
    assert table[1].split()[:4] == ["docs/*.md", "alice", "shared", "1"]
    assert run_bus("reserve", "docs/a.md", "--shared", "--agent", "bob").code == 0
    assert [each["agent"] for each in listed(run_bus, "--agent", "bob")] == ["bob"]
    assert [each["path"] for each in listed(run_bus, "--path", "docs/b.md")] == ["docs/*.md"]
    assert run_bus("reservations", "--path", "src").code == 4


def test_listing_is_what_the_group_does_unless_told_otherwise(run_bus: RunBus) -> None:
    """Issue 4, item 5: `bus reservations`; its help, and words that are no command, are as ever."""
    assert run_bus("reservations").code == 4
    reserve(run_bus, "a")
    assert run_bus("reservations") == run_bus("reservations", "list")
    shown = run_bus("reservations", "--help")
    assert shown.code == 0
    assert {"list", "renew", "release"} <= set(shown.out.split())
    assert_error(run_bus("reservations", "src"), 2, "has no command 'src'")
    assert_error(run_bus("reservations", "--pth", "src"), 2, "--pth")


@pytest.mark.slow
def test_reservations_are_renewed_and_released_by_their_tokens(run_bus: RunBus) -> None:
    """Promise 6: all that are named, or none; a late or another's token changes nothing."""
    reserve(run_bus, "a", "b", "c")
    first = listed(run_bus)
    renewed = run_bus("reservations", "renew", "1", "2", "--ttl", "5h", env=ALICE)
    assert [line.split()[0] for line in renewed.out.splitlines()] == ["a", "b"]
    after = listed(run_bus)
    longer = [new["until"] > old["until"] for old, new in zip(first, after, strict=True)]
    assert longer == [True, True, False]
    for act in ("renew", "release"):
        assert_error(run_bus("reservations", act, "1", env=BOB), 3, "it is alice's, for a")
        assert_error(run_bus("reservations", act, "1", "99", env=ALICE), 3, "never granted")
    assert listed(run_bus) == after
    assert run_bus("reservations", "release", "1", env=ALICE).code == 0
    assert [each["path"] for each in listed(run_bus)] == ["b", "c"]
    assert run_bus("reservations", "renew", "--all", env=ALICE).out.count("\n") == 2
    assert run_bus("reservations", "release", "--all", env=ALICE).code == 0
    assert run_bus("reservations", "renew", "--all", env=ALICE).code == 4
    assert listed(run_bus) == []


def test_paths_count_from_the_root_wherever_one_is(run_bus: RunBus, project: Path) -> None:
    """Issue 4, item 5: of the repository, or without git of the folder that has the bus."""
    below = project / "src" / "[id]"
    below.mkdir(parents=True)
    (below / "page.ts").touch()
    for _ in range(2):
        given = ["a/b.py", "./c", "../d/", f"{project}/e/*", ".", "../../src/[id]/page.ts"]
        assert reserve(run_bus, *given, cwd=below) == [
            "a/b.py",
            r"src/\[id]/c",
            "src/d",
            "e/*",
            r"src/\[id]",
            r"src/\[id]/page.ts",
        ]
        subprocess.run(["git", "init", "--quiet", project], check=True)
    assert reserve(run_bus, ".") == ["**"]
    subprocess.run(["git", "init", "--quiet", project / "src"], check=True)
    assert reserve(run_bus, "x", "./y", cwd=below) == ["x", r"\[id]/y"]


def test_name_that_is_here_and_not_at_the_root_gets_a_warning(
    run_bus: RunBus, project: Path
) -> None:
    """The shell writes `*.py` as names of this folder, which count from the root."""
    below = project / "src"
    below.mkdir()
    for path in (below / "a.py", below / "b.py", project / "b.py"):
        path.touch()
    done = run_bus("reserve", "a.py", "b.py", "c.py", "./a.py", "../b.py", env=ALICE, cwd=below)
    assert done.code == 0
    why = f"a.py counts from {project}, where it is not; for the one here write ./a.py"
    assert done.err == f"bus: warning: {why}\n"


def test_what_is_there_is_meant_as_it_is_called(run_bus: RunBus, project: Path, bus: Bus) -> None:
    """A file of a web framework, whose name is a glob that does not match it."""
    (project / "app" / "[id]").mkdir(parents=True)
    assert reserve(run_bus, "app/[id]/*.ts", "app/[xy]") == [r"app/\[id]/*.ts", "app/[xy]"]
    found = bus.reservations.against(["app/[id]/a.ts", "app/i/a.ts", "app/x"], "bob")
    assert [each.path for each in found] == ["app/[id]/a.ts", "app/x"]


def test_braces_and_exclamation_marks_that_are_meant_as_they_are(
    run_bus: RunBus, project: Path, bus: Bus
) -> None:
    (project / "{a,b}").mkdir()
    (project / "!x").touch()
    (project / "src").mkdir()
    paths = ("{a,b}/c.py", "!x", "src/!x", "src/{id}.ts", r"\{c,d}", r"\!y", "a!b")
    reserve(run_bus, *paths)
    files = ["{a,b}/c.py", "!x", "src/!x", "src/{id}.ts", "{c,d}", "!y", "a!b"]
    assert [each.path for each in bus.reservations.against(files, "bob")] == files


def test_file_has_one_name_whatever_links_lead_to_it(
    run_bus: RunBus, project: Path, tmp_path: Path
) -> None:
    """Two agents must not both have it, under two names."""
    (project / "lib").mkdir()
    (project / "src").symlink_to("lib")
    (project / "out").symlink_to("/usr")
    (tmp_path / "checkout").symlink_to(project)
    assert reserve(run_bus, "src/a.py", "src/*.c", "out/x") == ["lib/a.py", "lib/*.c", "out/x"]
    assert_error(run_bus("reserve", "lib/a.py", env=BOB), 3, "reserved by alice")
    assert reserve(run_bus, f"{tmp_path}/checkout/src/new.py") == ["lib/new.py"]


def test_link_that_is_named_is_reserved_as_well_as_where_it_leads(
    run_bus: RunBus, project: Path, bus: Bus
) -> None:
    """A commit of another link in its place changes a reserved file."""
    (project / "lib").mkdir()
    (project / "src").symlink_to("lib")
    for link, target in (("CLAUDE.md", "AGENTS.md"), ("lib/out", "/usr"), ("lib/gone", "../new")):
        (project / link).symlink_to(target)
    assert reserve(run_bus, "CLAUDE.md") == ["CLAUDE.md", "AGENTS.md"]
    assert reserve(run_bus, "src/out", "src/gone") == ["lib/out", "lib/gone", "new"]
    found = bus.reservations.against(["CLAUDE.md", "AGENTS.md", "lib/gone", "lib/a"], "bob")
    assert [each.path for each in found] == ["CLAUDE.md", "AGENTS.md", "lib/gone"]
    for name in ("CLAUDE.md", "AGENTS.md"):
        assert_error(run_bus("reserve", name, env=BOB), 3, f"{name} is reserved by alice")
    assert [each["path"] for each in listed(run_bus, "--path", "CLAUDE.md")] == [
        "CLAUDE.md",
        "AGENTS.md",
    ]
    assert len(listed(run_bus, "--path", ".")) == 5


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("a/[b",), 2, "never closed"),
        (("{a,b}.py",), 2, "give each path by itself"),
        (("ok", "src/{a/x,b}"), 2, "no {a,b}"),
        (("!src",), 2, "no ! before them"),
        (("../x",), 2, "outside of the project"),
        (("/etc/passwd",), 2, "outside of the project"),
        (("a/../../x",), 2, "must lead down"),
        (("",), 2, "1 to 1024 characters"),
        ((), 2, "PATHS"),
        (("ok", "--shared", "--exclusive"), 2, "not both"),
        (("ok", "--ttl", "2d"), 2, "86400"),
        (("ok", "--ttl", "x"), 2, "--ttl"),
        (("ok", "--reason", "a\nb"), 2, "control characters"),
        (("ok", b"\xff"), 2, "not valid Unicode"),
    ],
)
def test_bad_wish_gets_one_line_and_stores_nothing(
    args: tuple[str, ...], code: int, words: str, run_bus: RunBus
) -> None:
    """Issue 4, bad input; promise 11."""
    assert_error(run_bus("reserve", *args, env=ALICE), code, words)
    assert listed(run_bus) == []


def test_who_edits_has_to_be_said(run_bus: RunBus) -> None:
    assert_error(run_bus("reserve", "a"), 2, "no agent is named", "--agent", "BUS_AGENT")
    assert_error(run_bus("reservations", "release", env=ALICE), 2, "TOKENs or --all")
    assert_error(run_bus("reservations", "renew", "1", "--all", env=ALICE), 2, "TOKENs or --all")


def test_outside_of_any_project_nothing_can_be_reserved(
    run_bus: RunBus, bus_dir: Path, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    done = run_bus("reserve", "a", "--dir", bus_dir, env=ALICE, cwd=away)
    assert_error(done, 2, "in no git repository and not beside the bus")
