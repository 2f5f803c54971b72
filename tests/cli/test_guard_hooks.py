"""The hooks of the guard beside those of others: which run, under which name, what is undone."""

import fcntl
import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.git import guard
from ackbus.git.guard import ALWAYS, GUARDED, RARE
from ackbus.git.work_tree import WorkTree
from ackbus.schema.errors import Refused

from ..conftest import RunBus
from ..programs import run_program_to_sigkill
from ..sizes import case, sampled
from .conftest import assert_error
from .git import Git, git_env

pytestmark = pytest.mark.slow  # starts many processes

#: A dispatcher, as pre-commit and others have: what it does it reads from its own name.
DISPATCHER = 'echo "ran $(basename "$0") of $(dirname "$0") $*" >>"$LOG"\n'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log of hooks"


@pytest.fixture
def git(project: Path, bus_env: dict[str, str], log: Path) -> Git:
    """A repository without commits, beside a bus."""
    made = Git(project, git_env(bus_env) | {"LOG": str(log)})
    made.ok("init", "--quiet")
    return made


def script(path: Path, text: str = DISPATCHER) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return path


def ran(log: Path) -> list[str]:
    """The names of the hooks that ran since the last call."""
    lines = log.read_text(errors="surrogateescape").splitlines() if log.exists() else []
    log.write_text("")
    return [line.split()[1] for line in lines if line.startswith("ran ")]


def hooks_path(git: Git) -> str | None:
    done = git("config", "--local", "core.hooksPath")
    return done.out.removesuffix("\n") if done.code == 0 else None


def own(git: Git) -> Path:
    return git.path / ".git" / "ackbus-hooks"


def blocks(git: Git, bus: Bus) -> bool:
    """Whether the guard blocks a commit of what another has reserved."""
    bus.reservations.reserve(["reserved"], "alice")
    blocked = git.commit("reserved/file", agent="bob")
    git.ok("rm", "--cached", "--quiet", "reserved/file")
    return blocked.code == 1 and "is reserved by alice" in blocked.err


# Hooks run at their own path, under their own name.


FOLDERS = [
    None,
    ".husky/_",
    "./hooks with 'quotes' \"$(touch x)\"",
    "a\nb",
    "~/everywhere",
    "hooks/",
    "*",
]


@pytest.mark.parametrize(
    ("setting", "is_link"),
    [
        case(setting, is_link, by_day=number % 2 == is_link)
        for number, setting in enumerate(FOLDERS)
        for is_link in (False, True)
    ],
)
def test_each_hook_runs_at_its_own_path_under_its_own_name(
    setting: str | None, is_link: bool, git: Git, run_bus: RunBus, bus: Bus, log: Path
) -> None:
    """Issue 31, item 11: dispatchers by name, also as links, wherever the hooks lie."""
    if setting is not None:
        value = json.dumps(setting)
        with (git.path / ".git" / "config").open("a") as config:
            config.write(f"[core]\n\thooksPath = {value}\n")
    home = Path(git.env["HOME"])
    folder = (
        git.path / (setting or ".git/hooks") if setting != "~/everywhere" else home / "everywhere"
    )
    names = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")
    for name in names:
        if is_link:
            script(git.path / "tools" / "dispatch")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(git.path / "tools" / "dispatch")
        else:
            script(folder / name)
    before = hooks_path(git)
    assert run_bus("guard", "install").code == 0
    assert run_bus("guard", "install").code == 0
    assert git.commit("a.py", agent="bob").code == 0
    assert ran(log) == list(names)
    assert blocks(git, bus)
    assert run_bus("guard", "remove").code == 0
    assert (hooks_path(git), own(git).exists()) == (before, False)
    assert "ackbus" not in (git.path / ".git" / "config").read_text()
    ran(log)
    assert git.commit("b.py", agent="bob").code == 0
    assert ran(log) == list(names)
    assert not (git.path / "x").exists()


def test_hooks_look_beside_where_they_lie(git: Git, run_bus: RunBus, bus: Bus, log: Path) -> None:
    script(git.path / ".git" / "hooks" / "pre-commit", 'set -e; . "$(dirname "$0")/lib.sh"\n')
    (git.path / ".git" / "hooks" / "lib.sh").write_text('echo "ran lib" >>"$LOG"\n')
    assert run_bus("guard", "install").code == 0
    assert git.commit("a.py", agent="bob").code == 0
    assert ran(log) == ["lib"]


def test_every_hook_that_git_runs_is_handed_on_also_one_that_comes_later(
    git: Git, run_bus: RunBus, bus: Bus, log: Path, tmp_path: Path
) -> None:
    """Real commits, merges, rebases, checkouts and pushes, with the hooks and without the guard."""
    remote = tmp_path / "remote.git"
    git.ok("init", "--quiet", "--bare", remote)
    assert git.commit("a.py").code == 0
    folder = git.path / ".git" / "hooks"
    seen = []
    for number, is_guarded in enumerate((False, True)):
        if is_guarded:
            for path in folder.iterdir():
                path.unlink()
            assert run_bus("guard", "install").code == 0
        for name in ALWAYS:
            script(folder / name)
        git.ok("switch", "--quiet", "-c", f"side{number}")
        assert git.commit(f"b{number}").code == 0
        git.ok("switch", "--quiet", "main")
        assert git.commit(f"c{number}").code == 0
        git.ok("merge", "--quiet", "--no-ff", f"side{number}")
        git.ok("switch", "--quiet", f"side{number}")
        git.ok("rebase", "--quiet", "main~1")
        git.ok("commit", "--quiet", "--amend", "-m", "new")
        git.ok("switch", "--quiet", "-c", f"patch{number}", "main")
        assert git.commit(f"d{number}").code == 0
        git.ok("format-patch", "--quiet", "-1", "-o", tmp_path / f"p{number}")
        git.ok("switch", "--quiet", "main")
        git.ok("am", "--quiet", *(tmp_path / f"p{number}").iterdir())
        git.ok("push", "--quiet", remote, "main")
        git.ok("worktree", "add", "--quiet", "--detach", tmp_path / f"tree{number}")
        seen.append(ran(log))
    assert seen[0] == seen[1]
    assert {"pre-commit", "pre-rebase", "applypatch-msg", "post-rewrite", "pre-push"} <= {*seen[1]}
    assert {"post-checkout", "post-merge", "pre-merge-commit", "commit-msg"} <= {*seen[1]}


def started(git: Git, *args: str) -> list[str]:
    """The hooks that git starts, with its own words for it."""
    done = git(*args, env={"GIT_TRACE": "1"})
    assert done.code == 0, done
    words = [
        word for line in done.err.splitlines() if "run_command:" in line for word in line.split()
    ]
    return [Path(word).name for word in words if word.startswith(str(own(git)))]


def test_nothing_is_started_for_a_hook_that_is_not_there(
    git: Git, run_bus: RunBus, bus: Bus
) -> None:
    """Issue 31: hooks no slower. A shell for each took 0.4 of a checkout."""
    assert git.commit("a.py").code == 0
    assert run_bus("guard", "install").code == 0
    assert started(git, "checkout", "--quiet", "-B", "side") == []
    git.write("b.py")
    assert started(git, "commit", "--quiet", "-m", "b") == ["pre-commit"]
    links = [path.name for path in own(git).iterdir() if path.is_symlink() and not path.exists()]
    assert {*links, *GUARDED} == {*ALWAYS, *RARE}


#: Settings with an absolute folder, and what of the settings of others leads to one.
ABSOLUTE = [None, "everywhere", "every 'where'\n$(touch x)"]


@pytest.mark.parametrize("setting", sampled(ABSOLUTE, every=2))
def test_hook_that_comes_later_runs_at_its_own_path_from_the_next_commit_on(
    setting: str | None, git: Git, run_bus: RunBus, bus: Bus, log: Path, tmp_path: Path
) -> None:
    """Until then by a link: under its own name, but beside other files."""
    folder = git.path / ".git" / "hooks" if setting is None else tmp_path / setting
    if setting is not None:
        git.ok("config", "core.hooksPath", str(folder))
    assert git.commit("a.py").code == 0
    assert run_bus("guard", "install").code == 0
    beside = 'set -e; . "$(dirname "$0")/lib.sh"; '
    names = {"commit-msg": beside, "post-checkout": "", "reference-transaction": ""}
    hooks = {name: script(folder / name, text + DISPATCHER) for name, text in names.items()}
    (folder / "lib.sh").write_text("")
    texts = {name: path.read_bytes() for name, path in hooks.items()}
    git.ok("checkout", "--quiet", "-B", "side")
    lines = log.read_text()
    assert f"ran post-checkout of {own(git)} " in lines
    assert "ran reference-transaction of " in lines
    log.write_text("")
    git.ok("commit", "--quiet", "--allow-empty", "-m", "more")
    git.ok("checkout", "--quiet", "-B", "side")
    assert f"of {own(git)}" not in log.read_text()
    assert {*names} <= {*ran(log)}
    assert texts == {name: path.read_bytes() for name, path in hooks.items()}
    assert not any((own(git) / name).is_symlink() for name in names)
    assert blocks(git, bus)
    assert run_bus("guard", "remove").code == 0
    assert not own(git).exists()
    assert not (git.path / "x").exists()


def test_links_and_scripts_take_each_others_place(
    git: Git, run_bus: RunBus, bus: Bus, log: Path, tmp_path: Path
) -> None:
    """As the setting changes, hooks go, another tool renames, and an old installation is met."""
    far = str(tmp_path / "far")
    for number, setting in enumerate((".githooks", far, ".husky", None, far, f"{far} 2", ".husky")):
        if setting is None:
            git.ok("config", "--unset", "core.hooksPath")
        else:
            git.ok("config", "core.hooksPath", setting)
        assert run_bus("guard", "install").code == 0
        is_absolute = setting is None or os.path.isabs(setting)
        links = {path.name for path in own(git).iterdir() if path.is_symlink()}
        assert links == ({".earlier", *ALWAYS, *RARE} - {*GUARDED} if is_absolute else set())
        rare = script(git.path / (setting or ".git/hooks") / "reference-transaction")
        assert run_bus("guard", "install").code == 0
        log.write_text("")
        assert git.commit("a.py", agent="bob", text=str(number)).code == 0
        assert "reference-transaction" in ran(log)
        rare.unlink()
    git.ok("config", "core.hooksPath", far)
    assert run_bus("guard", "install").code == 0
    (own(git) / "update").rename(own(git) / "update.old")
    assert run_bus("guard", "remove").code == 0
    assert not own(git).exists()


def test_tool_that_writes_to_a_link_writes_the_hook_of_that_name(
    git: Git, run_bus: RunBus, bus: Bus, log: Path
) -> None:
    """Tools ask git where hooks go: it is as without the guard, and outlasts it."""
    assert run_bus("guard", "install").code == 0
    asked = git.path / git.ok("rev-parse", "--git-path", "hooks/post-commit")
    script(asked)
    assert (git.path / ".git" / "hooks" / "post-commit").is_file()
    for act in ("install", "remove"):
        assert git.commit("a.py", agent="bob", text=act).code == 0
        assert ran(log) == ["post-commit"]
        assert run_bus("guard", act).code == 0
    assert git.commit("b.py", agent="bob").code == 0
    assert ran(log) == ["post-commit"]


def test_file_system_without_links_has_scripts(
    git: Git, monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    guard.GuardHooks(WorkTree.around(str(git.path))).install("block")
    assert {path.name for path in own(git).iterdir()} == {*ALWAYS}
    script(git.path / ".git" / "hooks" / "post-commit")
    assert git.commit("a.py").code == 0
    assert ran(log) == ["post-commit"]


def test_push_to_a_checked_out_branch_still_updates_the_files(
    git: Git, run_bus: RunBus, bus: Bus, tmp_path: Path
) -> None:
    assert git.commit("a.py").code == 0
    git.ok("config", "receive.denyCurrentBranch", "updateInstead")
    git.ok("clone", "--quiet", git.path, tmp_path / "clone")
    clone = Git(tmp_path / "clone", git.env)
    assert run_bus("guard", "install").code == 0
    assert clone.commit("b.py").code == 0
    clone.ok("push", "--quiet", "origin", "main")
    assert (git.path / "b.py").exists()


@pytest.mark.parametrize("name", ["pre-commit", "commit-msg"])
@pytest.mark.parametrize("text", ["exit 7\n", "kill -9 $$\n"])
def test_hook_that_fails_ends_the_commit(
    name: str, text: str, git: Git, run_bus: RunBus, bus: Bus
) -> None:
    script(git.path / ".git" / "hooks" / name, text)
    assert run_bus("guard", "install").code == 0
    assert git.commit("a.py", agent="bob").code == 1
    assert git.head == ""


def test_file_without_the_right_to_run_is_no_hook(
    git: Git, run_bus: RunBus, bus: Bus, log: Path
) -> None:
    script(git.path / ".git" / "hooks" / "pre-commit").chmod(0o644)
    script(git.path / ".git" / "hooks" / "commit-msg").chmod(0o644)
    assert run_bus("guard", "install").code == 0
    assert git.commit("a.py", agent="bob").code == 0
    assert ran(log) == []


def test_linked_work_trees_have_the_hooks_of_their_own_folder(
    git: Git, run_bus: RunBus, bus: Bus, log: Path, tmp_path: Path
) -> None:
    """A relative `core.hooksPath` counts from the top of each tree, and the guard runs in all."""
    git.ok("config", "core.hooksPath", "own hooks")
    script(git.path / "own hooks" / "commit-msg")
    script(git.path / "own hooks" / "post-checkout")
    assert git.commit("a.py").code == 0
    linked = Git(tmp_path / "linked", git.env)
    assert run_bus("guard", "install").code == 0
    ran(log)
    git.ok("worktree", "add", "--quiet", "--detach", linked.path)
    assert ran(log) == ["post-checkout"]  # of the main tree, as git has it
    assert linked.commit("b.py", agent="bob").code == 0
    assert ran(log) == []
    script(linked.path / "own hooks" / "commit-msg")
    assert linked.commit("c.py", agent="bob").code == 0
    assert ran(log) == ["commit-msg"]
    assert blocks(linked, bus)
    assert run_bus("guard", "remove", cwd=linked.path).code == 0
    assert hooks_path(git) == "own hooks"


# Settings of `core.hooksPath`.


def test_setting_of_a_person_stays_and_its_hooks_run_here_through_ours(
    git: Git, run_bus: RunBus, bus: Bus, log: Path, tmp_path: Path
) -> None:
    """Issue 31, item 11: nothing is renamed in a folder that serves other repositories."""
    settings = tmp_path / "settings"
    everywhere = tmp_path / "everywhere"
    script(everywhere / "pre-commit")
    settings.write_text(f"[core]\n\thooksPath = {everywhere}\n")
    env = git.env | {"GIT_CONFIG_GLOBAL": str(settings)}
    git = Git(git.path, env)
    before = settings.read_bytes()
    assert run_bus("guard", "install", env={"GIT_CONFIG_GLOBAL": str(settings)}).code == 0
    assert [path.name for path in everywhere.iterdir()] == ["pre-commit"]
    assert git.commit("a.py", agent="bob").code == 0
    assert ran(log) == ["pre-commit"]
    assert blocks(git, bus)
    assert run_bus("guard", "remove", env={"GIT_CONFIG_GLOBAL": str(settings)}).code == 0
    assert (hooks_path(git), settings.read_bytes()) == (None, before)


def test_husky_that_sets_the_path_later_is_taken_in_by_the_next_install(
    git: Git, run_bus: RunBus, bus: Bus, log: Path
) -> None:
    """`npm install` sets `core.hooksPath` again, with one value, which must not fail for two."""
    script(git.path / ".git" / "hooks" / "pre-commit")
    assert run_bus("guard", "install").code == 0
    git.ok("config", "core.hooksPath", ".husky/_")
    h = 's="$(dirname "$(dirname "$0")")/$(basename "$0")"\n[ ! -f "$s" ] || sh -e "$s" "$@"\n'
    script(git.path / ".husky" / "_" / "h", h)
    script(git.path / ".husky" / "_" / "pre-commit", '. "$(dirname "$0")/h"\n')
    script(git.path / ".husky" / "pre-commit", 'echo "ran husky" >>"$LOG"\n')
    assert run_bus("guard", "install").code == 0
    assert git.commit("a.py", agent="bob").code == 0
    assert ran(log) == ["husky"]
    assert blocks(git, bus)
    assert run_bus("guard", "remove").code == 0
    assert hooks_path(git) == ".husky/_"
    assert run_bus("guard", "install").code == 0
    git.ok("config", "core.hooksPath", "other")
    assert run_bus("guard", "remove").code == 0  # what somebody has set since stays
    assert (hooks_path(git), own(git).exists()) == ("other", False)


def test_hooks_that_are_turned_off_stay_off_and_the_guard_is_on(
    git: Git, run_bus: RunBus, bus: Bus, log: Path
) -> None:
    script(git.path / ".git" / "hooks" / "pre-commit")
    git.ok("config", "core.hooksPath", "/dev/null")
    assert run_bus("guard", "install").code == 0
    assert blocks(git, bus)
    assert ran(log) == []
    assert run_bus("guard", "remove").code == 0
    assert hooks_path(git) == "/dev/null"


def test_setting_over_which_ours_would_not_win_is_refused(
    git: Git, run_bus: RunBus, bus: Bus, tmp_path: Path
) -> None:
    """Before anything is changed: of one work tree, of an included file, of the environment."""
    assert git.commit("a.py").code == 0
    config = git.path / ".git" / "config"
    plain = config.read_bytes()
    (tmp_path / "more").write_text("[core]\n\thooksPath = x\n")
    variables = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath"}
    for add, env, said in (
        (f"[include]\n\tpath = {tmp_path / 'more'}\n", {}, "more, which wins over"),
        ("", {**variables, "GIT_CONFIG_VALUE_0": "x"}, "command line:, which wins over"),
        ("[core]\n\thooksPath = a\n\thooksPath = b\n", {}, "has several values"),
        ("[core]\n\thooksPath =\n", {}, "core.hooksPath is empty"),
    ):
        config.write_bytes(plain + add.encode())
        assert_error(run_bus("guard", "install", env=env), 3, said)
        assert config.read_bytes() == plain + add.encode()
    config.write_bytes(plain)
    git.ok("config", "extensions.worktreeConfig", "true")
    git.ok("config", "--worktree", "core.hooksPath", "x")
    assert_error(run_bus("guard", "install"), 3, "config.worktree, which wins over")
    assert not own(git).exists()


def test_repository_that_has_moved_is_known_by_its_settings(
    git: Git, run_bus: RunBus, bus: Bus, log: Path, bus_dir: Path
) -> None:
    """The path is that of before; `install` sets it, and takes it for nobody's earlier one."""
    script(git.path / ".git" / "hooks" / "pre-commit")
    assert run_bus("guard", "install").code == 0
    moved = Git(git.path.with_name("moved"), git.env)
    git.path.rename(moved.path)
    assert run_bus("guard", "install", cwd=moved.path).code == 0
    assert moved.commit("a.py", agent="bob").code == 0
    assert ran(log) == ["pre-commit"]
    assert run_bus("guard", "remove", cwd=moved.path).code == 0
    assert (hooks_path(moved), own(moved).exists()) == (None, False)
    assert bus_dir is not None


# Other tools.


def test_hook_that_another_tool_puts_into_our_folder_is_neither_lost_nor_replaced(
    git: Git, run_bus: RunBus, bus: Bus
) -> None:
    """Tools ask git where hooks go; some rename what is there."""
    assert run_bus("guard", "install").code == 0
    hook = own(git) / "pre-commit"
    hook.rename(hook.with_name("pre-commit.old"))
    script(hook)
    before = hook.read_bytes()
    for act in ("install", "remove"):
        assert_error(run_bus("guard", act), 3, f"{hook} is a hook of another tool", "move it to")
        assert hook.read_bytes() == before
    hook.rename(git.path / ".git" / "hooks" / "pre-commit")
    assert run_bus("guard", "install").code == 0
    assert run_bus("guard", "remove").code == 0
    assert not own(git).exists()


def test_guard_that_another_tool_runs_does_not_run_for_ever(
    git: Git, run_bus: RunBus, bus: Bus
) -> None:
    """A tool that hands each hook on to the path that was set before it, as the guard does."""
    assert run_bus("guard", "install").code == 0
    for name in ("pre-commit", "commit-msg"):
        ours = shlex.quote(str(own(git) / name))
        script(git.path / "tool" / name, f'echo tool >&2; {ours} "$@"\n')
    git.ok("config", "core.hooksPath", "tool")
    assert run_bus("guard", "install").code == 0
    bus.reservations.reserve(["src"], "alice")
    blocked = git.commit("src/a.py", agent="bob")
    counts = (blocked.code, blocked.err.count("tool"), blocked.err.count("is reserved by"))
    assert counts == (1, 1, 1)
    done = git.commit(agent="alice")
    assert (done.code, done.err.count("tool")) == (0, 2)


INSTALLS = """
import os, signal, sys
from ackbus.git.guard import GuardHooks
from ackbus.git.work_tree import WorkTree

left = int(sys.argv[2])

def count(event, args):
    global left
    if event in ("os.rename", "os.remove", "os.rmdir", "os.symlink", "subprocess.Popen"):
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

hooks = GuardHooks(WorkTree.around(sys.argv[1]))
sys.addaudithook(count)
getattr(hooks, sys.argv[3])(*sys.argv[4:])
"""


@pytest.mark.parametrize(
    ("act", "acts", "is_absolute"),
    sampled(
        [
            *(("install", acts, False) for acts in (0, 1, 5, *range(24, 31))),
            *(("install", acts, True) for acts in (0, 1, 2, 3, 9, *range(50, 62, 2))),
            *(("remove", acts, acts % 4 > 1) for acts in (*range(10), 20)),
        ],
        every=2,
    ),
)
def test_killed_installation_or_removal_is_undone_or_completed(
    act: str, acts: int, is_absolute: bool, git: Git, run_bus: RunBus, bus: Bus, log: Path
) -> None:
    """However far it came: the hooks that were there run, `remove` and `install` end the matter."""
    setting = str(git.path / ".githooks") if is_absolute else ".githooks"
    git.ok("config", "core.hooksPath", setting)
    script(git.path / ".githooks" / "pre-commit")
    if act == "remove":
        assert run_bus("guard", "install").code == 0
    run_program_to_sigkill(INSTALLS, git.path, acts, act, *["block"] * (act == "install"))
    assert git.commit("a.py", agent="bob").code == 0
    assert ran(log) == ["pre-commit"]
    if acts % 2:
        assert run_bus("guard", "install").code == 0
        assert blocks(git, bus)
    assert run_bus("guard", "remove").code in (0, 4)
    assert (hooks_path(git), own(git).exists()) == (setting, False)
    assert "ackbus" not in (git.path / ".git" / "config").read_text()


def test_installations_at_the_same_time_do_not_undo_each_other(
    git: Git, run_bus: RunBus, bus: Bus, log: Path
) -> None:
    """Each took the new files of the others for what a killed one had left, and removed them."""
    git.ok("config", "core.hooksPath", ".githooks")
    script(git.path / ".githooks" / "pre-commit")
    with ThreadPoolExecutor(4) as threads:
        ended = list(threads.map(lambda _: run_bus("guard", "install"), range(4)))
    assert [each.code for each in ended] == [0] * 4, ended
    assert blocks(git, bus)
    assert run_bus("guard", "remove").code == 0
    assert (hooks_path(git), own(git).exists()) == (".githooks", False)


def test_installation_does_not_wait_for_ever_for_another(
    git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any program that can read git's folder can lock it."""
    monkeypatch.setattr(guard, "_WAIT_S", 0.05)
    folder = os.open(git.path / ".git", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(Refused, match="another program has kept"):
            guard.GuardHooks(WorkTree.around(str(git.path))).install("block")
    finally:
        os.close(folder)
    assert not own(git).exists()


# What a push is read from.


@pytest.mark.parametrize("has_earlier", [False, True])
def test_hook_of_pushes_does_not_wait_for_the_end_of_its_input(
    has_earlier: bool, git: Git, run_bus: RunBus, bus: Bus, log: Path
) -> None:
    """Issue 31, item 12: a pipe stays open, and no part is handed on for the whole."""
    if has_earlier:
        script(git.path / ".git" / "hooks" / "pre-push")
    assert run_bus("guard", "install").code == 0
    read, write = os.pipe()
    began = time.monotonic()
    done = subprocess.run(
        [own(git) / "pre-push", "origin", "url"],
        cwd=git.path,
        env=dict(git.env),
        stdin=read,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(read)
    os.close(write)
    assert (done.returncode, time.monotonic() - began > 4) == (1, True)
    assert done.stderr == (
        "bus: the end of the standard input has not come within 5 s; nothing was checked\n"
    )
    assert ran(log) == []


@pytest.mark.parametrize(
    ("variables", "place"),
    sampled(
        product(
            [{}, {"BUS_GUARD": "off"}, {"BUS_GUARD": "warn"}], ["python", "bus", "none", "broken"]
        ),
        every=5,
    ),
)
def test_earlier_hook_of_pushes_reads_all_that_git_says(
    variables: dict[str, str], place: str, git: Git, run_bus: RunBus, bus: Bus, tmp_path: Path
) -> None:
    """Also where the guard is off, is gone, or fails before it has read."""
    said = tmp_path / "said"
    script(git.path / ".git" / "hooks" / "pre-push", f'cat >{shlex.quote(str(said))}; echo "$@"\n')
    assert run_bus("guard", "install").code == 0
    hook = own(git) / "pre-push"
    python = {"python": sys.executable, "broken": "/bin/false"}.get(place, "/gone")
    hook.write_text(hook.read_text().replace(sys.executable, python))
    path = f"{Path(sys.executable).parent}:{git.env['PATH']}" if place == "bus" else "/usr/bin:/bin"
    remote = tmp_path / "remote.git"
    git.ok("init", "--quiet", "--bare", remote)
    assert git.commit("a.py", agent="bob").code == 0
    branches = [f"main:refs/heads/b{n}" for n in range(300)]
    git.ok(
        "push", "--quiet", remote, *branches, env={"BUS_AGENT": "bob", "PATH": path, **variables}
    )
    lines = said.read_text().splitlines()
    assert len(lines) == 300
    assert {line.split()[0] for line in lines} == {"refs/heads/main"}
