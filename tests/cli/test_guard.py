"""bus guard: real commits and pushes in real repositories, blocked and let through."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.bus.reservations.path_patterns import parse_pattern
from ackbus.git.work_tree import WorkTree

from ..conftest import RunBus
from .conftest import assert_error
from .git import Git, git_env

pytestmark = pytest.mark.slow  # starts many processes


@pytest.fixture
def env(bus_env: dict[str, str]) -> dict[str, str]:
    return git_env(bus_env)


@pytest.fixture
def git(project: Path, env: dict[str, str]) -> Git:
    """A repository without commits, beside a bus."""
    made = Git(project, env)
    made.ok("init", "--quiet")
    return made


@pytest.fixture
def guarded(git: Git, run_bus: RunBus, bus: Bus) -> Git:
    """The repository with the guard, in which alice has reserved src and *.lock."""
    assert run_bus("guard", "install").code == 0
    bus.reservations.reserve(["src", "*.lock"], "alice", reason="rename")
    return git


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


# What is committed.


def test_commit_of_what_another_reserved_is_blocked_and_ones_own_is_let_through(
    guarded: Git,
) -> None:
    """Issue 4, item 5: also the first commit of a repository."""
    blocked = guarded.commit("src/a.py", "yarn.lock", "README.md", agent="bob")
    assert (blocked.code, guarded.head) == (1, "")
    first, second = blocked.err.splitlines()
    assert first.startswith("bus: src/a.py is reserved by alice as src until 2")
    assert first.endswith("Z (exclusive, 'rename'): ask alice, wait, or leave it out")
    assert second.startswith("bus: yarn.lock is reserved by alice as *.lock until ")
    guarded.ok("rm", "--cached", "--quiet", "src/a.py", "yarn.lock")
    assert guarded.commit(agent="bob").code == 0
    done = guarded.commit("src/a.py", "yarn.lock", agent="alice")
    assert (done.code, done.err) == (0, "")
    assert guarded.ok("ls-files").split() == ["README.md", "src/a.py", "yarn.lock"]


def test_renames_count_with_both_names_and_deletions_count(guarded: Git, bus: Bus) -> None:
    assert guarded.commit("src/a.py", "src/b.py", "c.py", text="x\n" * 99, agent="alice").code == 0
    for change in (
        ("mv", "src/a.py", "free.py"),
        ("mv", "c.py", "src/c.py"),
        ("rm", "--quiet", "src/b.py"),
        ("update-index", "--chmod=+x", "src/a.py"),
    ):
        guarded.ok(*change)
        blocked = guarded.commit(agent="bob")
        assert (blocked.code, blocked.err.count("is reserved by alice as src")) == (1, 1), change
        guarded.ok("reset", "--quiet", "--hard")


def test_without_a_name_every_reservation_is_anothers(guarded: Git) -> None:
    blocked = guarded.commit("src/a.py")
    assert blocked.code == 1
    assert "bus: BUS_AGENT is not set, so every reservation counts as another's" in blocked.err
    assert guarded.commit("README.md", agent="").code == 1  # src/a.py is still staged
    assert "not set" not in guarded.commit(agent="bob").err


def test_shared_files_are_for_those_who_share_them(guarded: Git, bus: Bus) -> None:
    bus.reservations.reserve(["docs"], "alice", shared=True)
    blocked = guarded.commit("docs/a.md", agent="bob")
    assert (blocked.code, blocked.err.count("reserve it --shared too")) == (1, 1)
    bus.reservations.reserve(["docs/*.md"], "bob", shared=True)
    assert guarded.commit(agent="bob").code == 0


def test_ended_reservations_block_nobody(guarded: Git, bus: Bus) -> None:
    for held in bus.reservations.list():
        bus.reservations.renew(held.token, "alice", lease_s=0.001)
    assert guarded.commit("src/a.py", agent="bob").code == 0


def test_strange_names_are_compared_as_they_are(guarded: Git, run_bus: RunBus) -> None:
    """PITFALLS 24: names with newlines, globs, and no UTF-8; shown in one line each."""
    names = ["src/a\nb", "src/*", "src/:x", " src"]
    blocked = guarded.commit(*names, os.fsdecode(b"src/\xff"), agent="bob")
    assert blocked.code == 1
    lines = blocked.err.splitlines()
    assert len(lines) == 4
    assert all(line.isprintable() and "reserved by alice as src until" in line for line in lines)
    done = run_bus("guard", "check", "--json", env={"BUS_AGENT": "bob"})
    shown = [json.loads(line)["path"] for line in done.out.splitlines()]
    assert (done.code, sorted(shown)) == (3, ["src/*", "src/:x", r"src/\udcff", "src/a\nb"])


def test_merge_counts_what_it_changes_itself(guarded: Git) -> None:
    """Changes of the other side of a merge are no edits of the merger."""
    assert guarded.commit("src/a.py", "both", "README", agent="alice").code == 0
    guarded.ok("switch", "--quiet", "-c", "side")
    assert guarded.commit("src/a.py", "both", text="side\n", agent="alice").code == 0
    guarded.ok("switch", "--quiet", "main")
    assert guarded.commit("both", text="main\n", agent="bob").code == 0
    assert guarded("merge", "--quiet", "side").code == 1
    merged = guarded.commit("both", text="merged\n", agent="bob")
    assert (merged.code, merged.err) == (0, "")
    guarded.ok("reset", "--quiet", "--hard", "HEAD^1")
    assert guarded("merge", "--quiet", "side").code == 1
    assert guarded.commit("both", "src/a.py", text="merged\n", agent="bob").code == 1


def test_merge_of_several_branches_counts_as_one_of_two(guarded: Git) -> None:
    """Changes of any other side are no edits of the merger."""
    assert guarded.commit("README", agent="bob").code == 0
    for side in ("one", "two"):
        guarded.ok("switch", "--quiet", "-c", side, "main")
        assert guarded.commit(f"src/{side}.py", agent="alice").code == 0
    guarded.ok("switch", "--quiet", "main")
    guarded.ok("merge", "--quiet", "--no-commit", "one", "two")
    merged = guarded.commit("README", text="merged\n", agent="bob")
    assert (merged.code, merged.err) == (0, "")


def test_submodules_are_left_out(guarded: Git, env: dict[str, str], tmp_path: Path) -> None:
    other = Git(tmp_path / "other", env)
    other.path.mkdir()
    other.ok("init", "--quiet")
    assert other.commit("file").code == 0
    guarded.ok("submodule", "--quiet", "add", other.path, "src/sub")
    assert guarded.commit(agent="bob").code == 0


def test_commit_of_some_files_is_compared_with_those(guarded: Git) -> None:
    """`git commit FILE` uses an index of its own, which the hook is told of."""
    assert guarded.commit("README", agent="bob").code == 0
    guarded.write("src/a.py")
    guarded.write("README", text="changed\n")
    guarded.ok("commit", "--quiet", "-m", "one", "README", env={"BUS_AGENT": "bob"})
    assert guarded.commit(agent="bob").code == 1


def test_linked_work_trees_are_guarded_by_the_same_bus(guarded: Git, tmp_path: Path) -> None:
    """Issue 4, item 5: worktrees, also one that lies outside of the folder with the bus."""
    assert guarded.commit("README", agent="bob").code == 0
    guarded.ok("worktree", "add", "--quiet", "-b", "side", tmp_path / "linked")
    linked = Git(tmp_path / "linked", guarded.env)
    assert "reserved by alice" in linked.commit("src/a.py", agent="bob").err
    linked.ok("rm", "--cached", "--quiet", "src/a.py")
    assert linked.commit("b.py", agent="bob").code == 0


def test_linked_work_tree_uses_the_bus_of_the_main_one(
    guarded: Git, run_bus: RunBus, bus_dir: Path, tmp_path: Path
) -> None:
    """DESIGN: as git finds `.git`. A second bus, where no guard looks, needs to be named."""
    assert guarded.commit("README", agent="bob").code == 0
    linked = tmp_path / "linked"
    guarded.ok("worktree", "add", "--quiet", "-b", "side", linked)
    (linked / "deep").mkdir()
    for here in (linked, linked / "deep"):
        where = json.loads(run_bus("where", "--json", cwd=here).out)
        found_by = "looking upwards from the main work tree of git"
        assert (where["dir"], where["found_by"]) == (str(bus_dir), found_by)
        assert_error(run_bus("init", cwd=here), 3, str(bus_dir), "--dir .worker-state")
        assert not (here / ".worker-state").exists()
        refused = run_bus("reserve", "src/a.py", "--agent", "bob", cwd=here)
        assert (refused.code, "reserved by alice as src" in refused.err) == (3, True)
    assert run_bus("init", "--dir", ".worker-state", cwd=linked).code == 0
    assert run_bus("where", cwd=linked).out == f"{linked / '.worker-state'}\n"
    assert run_bus("init", cwd=linked).code == 0


def test_bus_of_the_main_work_tree_wins_over_one_above_both(
    guarded: Git, run_bus: RunBus, bus_dir: Path, tmp_path: Path
) -> None:
    """Issue 4, item 5: else agents in the trees would not see each other's reservations."""
    assert guarded.commit("README", agent="bob").code == 0
    linked = guarded.path.parent / "linked"
    guarded.ok("worktree", "add", "--quiet", "-b", "side", linked)
    above = guarded.path.parent / ".worker-state"
    assert run_bus("init", "--dir", above).code == 0
    assert run_bus("where", cwd=linked).out == f"{bus_dir}\n"
    bus_dir.rename(tmp_path / "moved")
    assert run_bus("where", cwd=linked).out == f"{above}\n"


def test_submodule_in_a_linked_work_tree_uses_the_bus_of_the_main_one(
    guarded: Git, run_bus: RunBus, bus_dir: Path, tmp_path: Path
) -> None:
    """Issue 4, item 5: its file `.git` leads nowhere, and the search goes on above it."""
    (tmp_path / "lib").mkdir()
    library = Git(tmp_path / "lib", guarded.env)
    library.ok("init", "--quiet")
    assert library.commit("a.py").code == 0
    guarded.ok("submodule", "--quiet", "add", library.path, "sub")
    assert guarded.commit("README", agent="bob").code == 0
    linked = Git(tmp_path / "linked", guarded.env)
    guarded.ok("worktree", "add", "--quiet", "-b", "side", linked.path)
    linked.ok("submodule", "--quiet", "update", "--init")
    assert (linked.path / "sub" / ".git").is_file()
    assert run_bus("where", cwd=linked.path / "sub").out == f"{bus_dir}\n"


def test_links_in_a_circle_end_the_search(run_bus: RunBus, tmp_path: Path) -> None:
    """A `.git` that leads to its own folder."""
    here = tmp_path / "circle"
    here.mkdir()
    (here / ".git").write_text("gitdir: .\n")
    (here / "commondir").write_text("sub\n")
    assert_error(run_bus("where", cwd=here), 1, f"no bus in {here} or above it")


def test_file_in_place_of_git_that_links_to_nothing_finds_no_bus(
    run_bus: RunBus, tmp_path: Path, git: Git, bus: Bus
) -> None:
    """Submodules, `--separate-git-dir`, links to what is gone: no main work tree, no bus."""
    apart = tmp_path / "apart"
    git.ok("init", "--quiet", "--separate-git-dir", tmp_path / "git-dir", apart)
    assert_error(run_bus("where", cwd=apart), 1, f"no bus in {apart} or above it", "bus init")
    for text in (f"gitdir: {tmp_path / 'gone'}\n", "", "\x00", "gitdir: \x00\n"):
        (apart / ".git").write_text(text)
        assert_error(run_bus("where", cwd=apart), 1, f"no bus in {apart} or above it")


# What is pushed.


def test_push_of_commits_that_change_reserved_files_is_blocked(
    guarded: Git, run_bus: RunBus, bus: Bus, tmp_path: Path
) -> None:
    """Issue 4, item 5: new branches, changed ones, several at once, deletions, merges."""
    remote = tmp_path / "remote.git"
    guarded.ok("init", "--quiet", "--bare", remote)
    guarded.ok("remote", "add", "origin", remote)
    bob = {"BUS_AGENT": "bob"}
    assert guarded.commit("README", "src/a.py", agent="alice").code == 0
    assert "src/a.py is reserved" in guarded("push", "--quiet", "origin", "main", env=bob).err
    guarded.ok("push", "--quiet", "origin", "main", env={"BUS_AGENT": "alice"})
    assert guarded.commit("b.py", agent="bob").code == 0
    guarded.ok("push", "--quiet", "origin", "main", "main:side", env=bob)
    guarded.ok("rm", "--quiet", "src/a.py")
    assert guarded.commit(agent="alice").code == 0
    guarded.write("src/a.py")
    assert guarded.commit(agent="alice").code == 0  # the tip has it, and yet two commits change it
    pushed = guarded("push", "--quiet", "--all", "origin", env=bob)
    assert (pushed.code, pushed.err.count("src/a.py is reserved by alice")) == (1, 1)
    assert guarded.ok("rev-parse", "origin/main") == guarded.ok("rev-parse", "HEAD~2")
    guarded.ok("push", "--quiet", "origin", ":side", env=bob)
    guarded.ok("push", "--quiet", remote, "HEAD~2:refs/heads/other", env={"BUS_AGENT": "alice"})
    guarded.ok("push", "--quiet", "--no-verify", "origin", "main", env=bob)


def test_push_is_blocked_for_what_one_has_done_since_the_reservation(
    git: Git, run_bus: RunBus, bus: Bus, tmp_path: Path
) -> None:
    """Neither for what was made before it, nor for what a merge of another's commits brings."""
    assert run_bus("guard", "install").code == 0
    bob = {"BUS_AGENT": "bob"}
    for name in ("one", "two", "three"):
        git.ok("init", "--quiet", "--bare", tmp_path / name)
        git.ok("remote", "add", name, tmp_path / name)
    old = {"GIT_COMMITTER_DATE": "2001-01-01T00:00:00Z"}
    git.write("src/a.py")
    git.ok("commit", "-qm", "before", env=old)
    bus.reservations.reserve(["src"], "alice")
    git.ok("push", "--quiet", "one", "main", env=bob)
    git.ok("switch", "--quiet", "-c", "side")
    assert git.commit("src/a.py", agent="alice", text="alice").code == 0
    git.ok("switch", "--quiet", "main")
    git.ok("merge", "--quiet", "--no-ff", "side", env=bob)
    git.ok("push", "--quiet", "two", "main", env=bob)
    git.write("src/a.py", text="bob")
    git.ok("commit", "-qnm", "bob's")
    assert git("push", "--quiet", "two", "main", env=bob).code == 1
    git.ok("push", "--quiet", "two", "main", env={"BUS_AGENT": "alice"})
    git.ok("push", "--quiet", "three", "main", env=bob)  # another remote has it


def test_push_that_the_guard_cannot_read_is_blocked(
    guarded: Git, run_bus: RunBus, tmp_path: Path
) -> None:
    """No way around it: a local ref with spaces, a misspelt setting, lines of no known form."""
    remote = tmp_path / "remote.git"
    guarded.ok("init", "--quiet", "--bare", remote)
    guarded.write("src/a.py")
    guarded.ok("commit", "-qnm", "bob edits")
    for ref, env in ((":/bob edits", {}), ("main", {"BUS_GUARD": "wran"})):
        pushed = guarded("push", remote, f"{ref}:refs/heads/x", env={"BUS_AGENT": "bob", **env})
        assert (pushed.code, pushed.err.count("src/a.py is reserved by alice")) == (1, 1), pushed
    for mode, code in (("block", 3), ("warn", 0)):
        done = run_bus(
            "guard", "check", "--push", "o", "--mode", mode, stdin="main --help main 0\n"
        )
        assert (done.code, "not a line that git gives" in done.err) == (code, True)


# Speed.


def test_check_of_1000_files_against_1000_reservations_is_quick(guarded: Git, bus: Bus) -> None:
    """Issue 4: under 200 ms on a quiet machine; bench/guard_check.py measures it."""
    globs = [f"pkg{n % 40}/**/test_{n}*.[ch]" for n in range(500)]
    bus.reservations.reserve([*globs, *(f"pkg{n % 40}/file{n}" for n in range(500))], "alice")
    files = [f"pkg{n % 40}/below/test_{n}_x.py" for n in range(999)]
    guarded.write(*files[:1])
    for name in files[1:]:
        (guarded.path / name).parent.mkdir(parents=True, exist_ok=True)
        (guarded.path / name).touch()
    guarded.ok("add", ".")
    guarded.write("pkg1/file1")
    times_s = []
    for _ in range(5):
        parse_pattern.cache_clear()
        began = time.perf_counter()
        staged = WorkTree.around(str(guarded.path)).staged()
        found = bus.reservations.against(staged, "bob")
        times_s.append(time.perf_counter() - began)
        assert len(staged) == 1000  # and nothing of the bus
        assert [each.path for each in found] == ["pkg1/file1"]
    assert min(times_s) < 3.0


@pytest.mark.parametrize(("agent", "code"), [("nobody", 0), ("alice", 0), ("bob", 3)])
def test_hook_loads_little(agent: str, code: int, guarded: Git, bus: Bus) -> None:
    """ADR 36: a commit waits for it. No command line, no exporter, none of what git runs.

    Where nothing is reserved, which is most often, it loads neither `orjson` nor what makes
    dataclasses: together they take as long as all else.
    """
    guarded.write("src/a.py")
    if agent == "nobody":
        for reservation in bus.reservations.list():
            bus.reservations.release(reservation.token, reservation.agent)
    program = (
        "import sys; before = set(sys.modules); from ackbus.cli import guard_check\n"
        "from ackbus.cli.show.output import Output\n"
        f"assert guard_check.check(Output(), 'block') == {code}; print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=guarded.path,
        env=guarded.env | {"BUS_AGENT": agent},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    ours = {name for name in loaded if name.startswith(("ackbus.export", "ackbus.git"))}
    assert ours == {
        "ackbus.git",
        "ackbus.git.limited",
        "ackbus.git.repository",
        "ackbus.git.work_tree",
    }
    assert {"subprocess", "apsw"} <= loaded
    heavy = {"typer", "rich", "pathlib", "tempfile", "typing", "shutil", "argparse", "asyncio"}
    if not code:
        heavy |= {"orjson", "ackbus.bus.local_bus"}
    if agent == "nobody":
        heavy |= {"dataclasses", "inspect", "ackbus.subscribers"}
    assert not loaded & heavy


# Modes.


def test_guard_can_warn_only(guarded: Git, run_bus: RunBus) -> None:
    assert run_bus("guard", "install", "--mode", "warn").code == 0
    done = guarded.commit("src/a.py", agent="bob")
    assert (done.code, done.err.startswith("bus: warning: src/a.py is reserved")) == (0, True)


def test_guard_that_is_installed_again_keeps_its_mode(guarded: Git, run_bus: RunBus) -> None:
    """Issue 4, item 5: bringing the hooks up to date changes nothing that was chosen."""
    for options, mode in ((), "block"), (("--mode", "warn"), "warn"), ((), "warn"):
        said = run_bus("guard", "install", *options).out.splitlines()
        assert [line.split("  ")[1] for line in said] == [mode, mode], (options, mode)
    assert guarded.commit("src/a.py", agent="bob").code == 0
    assert run_bus("guard", "install", "--mode", "block").code == 0
    assert guarded.commit("src/b.py", agent="bob").code == 1


@pytest.mark.parametrize(
    ("value", "code", "said"), [("warn", 0, 1), ("off", 0, 0), ("block", 1, 1)]
)
def test_environment_wins_over_the_hook(value: str, code: int, said: int, guarded: Git) -> None:
    guarded.write("src/a.py")
    done = guarded("commit", "-qm", "x", env={"BUS_AGENT": "bob", "BUS_GUARD": value})
    assert (done.code, done.err.count("is reserved by")) == (code, said)


def test_check_says_the_same_by_hand(guarded: Git, run_bus: RunBus) -> None:
    guarded.write("src/a.py", "free")
    done = run_bus("guard", "check", "--json", env={"BUS_AGENT": "bob"})
    assert (done.code, done.err) == (3, "")
    (conflict,) = map(json.loads, done.out.splitlines())
    assert (conflict["path"], conflict["held"]["path"]) == ("src/a.py", "src")
    assert (conflict["held"]["agent"], conflict["held"]["token"]) == ("alice", 1)
    assert run_bus("guard", "check", "--agent", "alice").code == 0
    assert_error(run_bus("guard", "check", "--mode", "off"), 2, "block or warn")
    bad = run_bus("guard", "check", env={"BUS_GUARD": "wran", "BUS_AGENT": "bob"})
    assert (bad.code, bad.out) == (3, "")
    assert "BUS_GUARD must be block, warn or off, not 'wran'; the mode stays block" in bad.err


# The hooks.


def test_hook_that_was_there_runs_first_and_counts(git: Git, run_bus: RunBus, bus: Bus) -> None:
    """Same arguments, same input, its exit code; `remove` puts it back, byte for byte."""
    hooks = git.path / ".git" / "hooks"
    script(hooks / "pre-commit", 'echo "former $#"; [ ! -e stop ] || exit 7\n')
    script(hooks / "pre-push", 'echo "pushed $1 $(wc -l) $0"\n')
    before = {path: path.read_bytes() for path in hooks.iterdir()}
    own = git.path / ".git" / "ackbus-hooks"
    for _ in range(2):  # the second changes nothing
        done = run_bus("guard", "install")
        assert done.out.splitlines() == [
            f"{name}  block  {own / name}  (with {hooks / name})"
            for name in ("pre-commit", "pre-push")
        ]
    bus.reservations.reserve(["src"], "alice")
    blocked = git.commit("src/a.py", agent="bob")
    assert (blocked.code, blocked.err.splitlines()[0]) == (1, "former 0")
    git.ok("rm", "--cached", "--quiet", "src/a.py")
    assert git.commit("a.py", agent="bob").code == 0
    remote = git.path.parent / "remote.git"
    git.ok("init", "--quiet", "--bare", remote)
    pushed = git("push", remote, "main", env={"BUS_AGENT": "bob"})
    assert f"pushed {remote} 1 " in pushed.err + pushed.out
    git.write("stop")
    assert git.commit(agent="bob").code == 1
    assert git.path.joinpath("stop").exists()
    assert [line.split()[1] for line in run_bus("guard", "remove").out.splitlines()] == [
        "removed"
    ] * 2
    assert {path: path.read_bytes() for path in hooks.iterdir()} == before
    assert os.access(hooks / "pre-commit", os.X_OK)
    assert run_bus("guard", "remove").code == 4


@pytest.mark.parametrize("first", ["#!/bin/sh", "#!/usr/bin/env sh", "#!/bin/sh -e"])
def test_hook_that_asks_for_its_name_still_knows_it(
    first: str, git: Git, run_bus: RunBus, bus: Bus
) -> None:
    """Husky's hooks run the script beside them that is called as they are."""
    git.ok("config", "core.hooksPath", ".husky/_")
    for name in ("pre-commit", "pre-push"):
        script(git.path / ".husky" / "_" / name, "")
        (git.path / ".husky" / "_" / name).write_text(f'{first}\n. "$(dirname "$0")/h"\n')
        script(git.path / ".husky" / name, f'echo "checks of {name} $#"; cat; [ ! -e stop ]\n')
    own = 's="$(dirname "$(dirname "$0")")/$(basename "$0")"\n[ -f "$s" ] || exit 0\n'
    script(git.path / ".husky" / "_" / "h", own + 'sh -e "$s" "$@"\nexit $?\n')
    assert run_bus("guard", "install").code == 0
    bus.reservations.reserve(["src"], "alice")
    blocked = git.commit("src/a.py", agent="bob")
    assert (blocked.code, blocked.err.splitlines()[0]) == (1, "checks of pre-commit 0")
    git.path.joinpath("stop").touch()
    assert git.commit(agent="alice").code == 1
    git.path.joinpath("stop").unlink()
    assert git.commit(agent="alice").code == 0
    remote = git.path.parent / "remote.git"
    git.ok("init", "--quiet", "--bare", remote)
    pushed = git("push", remote, "main", env={"BUS_AGENT": "alice"})
    assert (pushed.code, "checks of pre-push 2" in pushed.err + pushed.out) == (0, True)
    assert f"refs/heads/main {git.head} refs/heads/main" in pushed.err + pushed.out


def test_hook_that_is_a_link_still_finds_what_lies_beside_its_script(
    git: Git, run_bus: RunBus, bus: Bus
) -> None:
    script(git.path / "tools" / "pre-commit", '. "$(dirname "$(readlink -f "$0")")/lint"\n')
    script(git.path / "tools" / "lint", 'echo "linted" >&2; [ ! -e stop ] || exit 7\n')
    (git.path / ".git" / "hooks" / "pre-commit").symlink_to("../../tools/pre-commit")
    assert run_bus("guard", "install").code == 0
    bus.reservations.reserve(["src"], "alice")
    blocked = git.commit("src/a.py", agent="bob")
    assert (blocked.code, blocked.err.splitlines()[0]) == (1, "linted")
    done = git.commit("src/a.py", agent="alice")
    assert (done.code, done.err) == (0, "linted\n")
    git.path.joinpath("stop").touch()
    assert git.commit("b.py", agent="alice").code == 1


# What is not there.


def test_missing_bus_blocks_no_commit(guarded: Git, bus_dir: Path) -> None:
    shutil.rmtree(bus_dir)
    done = guarded.commit("src/a.py", agent="bob")
    assert done.code == 0
    assert done.err.splitlines()[0].startswith("bus: no bus in ")
    assert done.err.splitlines()[1] == "bus guard: nothing was checked, and nothing blocked"


def test_missing_ackbus_blocks_no_commit(guarded: Git, tmp_path: Path) -> None:
    """The interpreter of the installation has gone: `bus` on the PATH serves, or nothing."""
    hook = guarded.path / ".git" / "ackbus-hooks" / "pre-commit"
    lines = hook.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith("    if [ -x /"))
    lines[at] = "    if [ -x /gone/python ]; then\n"
    hook.write_text("".join(lines))
    assert guarded.commit("src/a.py", agent="bob").code == 1
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("git", "sh", "dirname", "cat"):
        (tools / tool).symlink_to(shutil.which(tool) or "")
    alone = Git(guarded.path, {**guarded.env, "PATH": str(tools)})
    done = alone.commit(agent="bob")
    assert done.code == 0
    assert "ackbus is not installed here any more, so nothing was checked" in done.err


def test_bus_elsewhere_is_remembered_and_the_environment_wins(
    git: Git, run_bus: RunBus, tmp_path: Path
) -> None:
    git.path.joinpath("other").mkdir()
    for place, agent in (("one", "alice"), ("two", "carol")):
        with Bus.init(tmp_path / place) as bus:
            bus.reservations.reserve(["src"], agent)
    assert run_bus("guard", "install", "--dir", tmp_path / "one").code == 0
    assert "reserved by alice" in git.commit("src/a", agent="bob").err
    hook = git.path / ".git" / "ackbus-hooks" / "pre-commit"
    assert str(tmp_path / "one") in hook.read_text()
    done = git("commit", "-qm", "x", env={"BUS_DIR": str(tmp_path / "two"), "BUS_AGENT": "bob"})
    assert (done.code, "reserved by carol" in done.err) == (1, True)
    Bus.init(tmp_path / ".worker-state").close()  # above the repository it is found, and may move
    assert run_bus("guard", "install").code == 0
    assert "BUS_DIR" not in hook.read_text()


def test_modules_of_the_repository_are_not_taken_for_ours(guarded: Git) -> None:
    for name in ("ackbus/__init__.py", "typing.py", "json.py"):
        guarded.write(name, text="raise SystemExit(0)\n")
    assert guarded.commit("src/a.py", agent="bob").code == 1


@pytest.mark.usefixtures("bus_dir")
def test_guard_needs_a_repository_with_files(
    run_bus: RunBus, project: Path, env: dict[str, str], tmp_path: Path
) -> None:
    """Issue 4, bad input: not a repository, a bare one, inside of `.git`, no git, no bus."""
    commands = (("install",), ("remove",), ("check",))
    for command in commands:
        assert_error(run_bus("guard", *command), 1, "is in no git repository")
    bare = Git(project, env)
    bare.ok("init", "--quiet", "--bare", "bare.git")
    bare.ok("init", "--quiet", "plain")
    for command in commands:
        done = run_bus("guard", *command, cwd=project / "bare.git")
        assert_error(done, 1, "is in a bare repository, which has no files")
        done = run_bus("guard", *command, cwd=project / "plain" / ".git")
        assert_error(done, 1, "not in the work tree")
    assert_error(run_bus("guard", "install", env={"PATH": "/nowhere"}), 1, "git is not installed")
    Git(tmp_path, env).ok("init", "--quiet", "far")
    assert_error(run_bus("guard", "install", cwd=tmp_path / "far"), 1, "no bus in")
    assert not (tmp_path / "far" / ".git" / "ackbus-hooks").exists()
    assert_error(run_bus("guard", "install", "--mode", "off"), 2, "block or warn")
