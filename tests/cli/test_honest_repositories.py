"""Honest uses of tasks in repositories: what keeps strangers out keeps nobody from them.

All that looks and acts works wherever a command is run, and however the repository is made.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ackbus import Bus

from ..conftest import Ended, RunBus
from ..sizes import case
from .git import Git, git_env

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Site:
    """A repository with tasks, and the place from which its commands are run.

    Attributes:
        here: the working directory.
        work: the work tree of the project, or the bare repository.
        options: what names the repository to the commands that take a name of it.
        env: the environment of all.
    """

    here: Path
    work: Path
    options: tuple[str, ...]
    env: dict[str, str]
    run_bus: RunBus

    def bus(self, *args: str, here: Path | None = None, code: int = 0) -> Ended:
        ended = self.run_bus(*args, cwd=here or self.here, env=self.env)
        assert ended.code == code, (args, ended)
        return ended

    def records(self, *args: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.bus(*args, "--json").out.splitlines()]

    def at(self, path: Path) -> Git:
        return Git(path, self.env)

    def spawn(self, task: str) -> Path:
        """Begins a task, and returns its work tree."""
        given = ("--worker", "bob", "--review", "none", "--agent", "ann")
        (record,) = self.records("task", "spawn", task, *given, *self.named("-C"))
        path = Path(str(record["path"]))
        self.bus("task", "start", task, "--agent", "bob", "--token", str(record["token"]))
        return path

    def done(self, task: str, text: str, *, here: Path | None = None) -> None:
        """Commits a line in the tree of a task, and ends the work on it."""
        (shown,) = self.records("task", "show", task)
        path = Path(str(shown["path"]))
        assert self.at(path).commit("file", text=text).code == 0
        token = str(shown["token"])
        self.bus("task", "done", task, "--agent", "bob", "--token", token, here=here)

    def named(self, option: str) -> tuple[str, ...]:
        return (option, *self.options) if self.options else ()


@pytest.fixture
def env(bus_env: dict[str, str]) -> dict[str, str]:
    return {**git_env(bus_env), "BUS_AGENT": "ann"}


@pytest.fixture
def work(project: Path, env: dict[str, str]) -> Git:
    """The project's repository with one commit, in which the bus is."""
    git = Git(project, env)
    git.ok("init", "--quiet")
    git.write(".gitignore", text=".worker-state/\n")
    git.commit("file", "sub/deep/other", text="first\n")
    return git


def _root(work: Git, env: dict[str, str]) -> tuple[Path, Path, str]:
    return work.path, work.path, ""


def _subfolder(work: Git, env: dict[str, str]) -> tuple[Path, Path, str]:
    return work.path / "sub" / "deep", work.path, ""


def _linked_tree(work: Git, env: dict[str, str]) -> tuple[Path, Path, str]:
    tree = work.path.parent / "mine"
    work.ok("worktree", "add", "--quiet", "-b", "mine", tree)
    return tree, work.path, ""


def _folder_of_linked_tree(work: Git, env: dict[str, str]) -> tuple[Path, Path, str]:
    tree, path, named = _linked_tree(work, env)
    return tree / "sub", path, named


def _another_folder(work: Git, env: dict[str, str]) -> tuple[Path, Path, str]:
    """With the bus around the repository, and `-C`."""
    other = work.path.parent / "other"
    other.mkdir()
    env["BUS_DIR"] = str(work.path / ".worker-state")
    return other, work.path, str(work.path)


def _by_a_link(work: Git, env: dict[str, str]) -> tuple[Path, Path, str]:
    link = work.path.parent / "link"
    link.symlink_to(work.path)
    return link / "sub", work.path, ""


def _bare(work: Git, env: dict[str, str]) -> tuple[Path, Path, str]:
    """A bare main repository, which -C names, and the user trusts; the bus lies beside it."""
    bare = work.path / "main.git"
    work.ok("clone", "--quiet", "--bare", ".", bare)
    shutil.rmtree(work.path / ".git")
    env["BUS_SAFE_DIRECTORIES"] = str(bare)
    return work.path, bare, str(bare)


def _bare_with_linked_tree(work: Git, env: dict[str, str]) -> tuple[Path, Path, str]:
    """A bare main repository, from a work tree of it: no need to name it."""
    _, bare, _ = _bare(work, env)
    tree = work.path / "tree"
    del env["BUS_SAFE_DIRECTORIES"]
    Git(bare, env).ok("worktree", "add", "--quiet", "-b", "mine", tree)
    return tree, bare, ""


def _separate_git_dir(work: Git, env: dict[str, str]) -> tuple[Path, Path, str]:
    """The bus, which such trees don't find, is named."""
    work.ok("init", "--quiet", "--separate-git-dir", work.path.parent / "apart.git")
    env["BUS_DIR"] = str(work.path / ".worker-state")
    return work.path, work.path, ""


def _submodule(work: Git, env: dict[str, str]) -> tuple[Path, Path, str]:
    """A submodule has its repository in that of the project around."""
    origin = work.path.parent / "origin"
    work.ok("clone", "--quiet", ".", origin)
    work.ok("submodule", "--quiet", "add", str(origin), "module")
    return work.path / "module", work.path / "module", ""


PLACES: dict[str, Callable[[Git, dict[str, str]], tuple[Path, Path, str]]] = {
    place.__name__.lstrip("_"): place
    for place in (
        *(_root, _subfolder, _linked_tree, _folder_of_linked_tree, _another_folder, _by_a_link),
        *(_bare, _bare_with_linked_tree, _separate_git_dir, _submodule),
    )
}


#: The places that each check takes.
_BY_DAY = (_folder_of_linked_tree, _another_folder, _bare_with_linked_tree, _submodule)


@pytest.fixture(
    params=[case(name, by_day=place in _BY_DAY, id=name) for name, place in PLACES.items()]
)
def site(
    request: pytest.FixtureRequest, work: Git, env: dict[str, str], bus: Bus, run_bus: RunBus
) -> Site:
    here, path, named = PLACES[request.param](work, env)
    return Site(here, path, (named,) if named else (), env, run_bus)


def test_a_task_goes_its_whole_way_from_each_place(site: Site) -> None:
    """From its branch to the target, with all that looks at it on the way."""
    one, two = site.spawn("one"), site.spawn("two")
    site.done("one", "one\n", here=one)
    assert site.at(two).commit("file", text="two\n").code == 0
    (board,) = site.records("task", "board")
    assert board["problem"] is None
    (clash,) = site.records("task", "forecast")
    assert (clash["files"], clash.get("not_known")) == (["file"], None)
    for here in (site.here, one, one / "sub"):
        assert "+one" in site.bus("task", "diff", "one", here=here).out
        assert site.bus("task", "board", "--once", here=here).out
    landed = site.bus("integrate", "--once", "--into", "main", *site.named("--repo"))
    assert "one: landed" in landed.out
    assert site.at(site.work).ok("show", "main:file") == "one"
    site.bus("task", "clean", "one")


@pytest.fixture
def root_site(work: Git, env: dict[str, str], bus: Bus, run_bus: RunBus) -> Site:
    """The usual place: the top of the project."""
    return Site(work.path, work.path, (), env, run_bus)


#: A filter that stores files otherwise than they are, and a driver that takes both sides.
SETTINGS = {
    "merge.both.driver": "cat %A %B > both && cat both > %A && rm both",
    "filter.upper.clean": "tr a-z A-Z",
    "filter.upper.smudge": "tr A-Z a-z",
}


@pytest.mark.parametrize("is_of_user", [True, False], ids=["of the user", "of the repository"])
def test_filters_and_drivers_count_where_one_acts(
    root_site: Site, tmp_path: Path, work: Git, is_of_user: bool
) -> None:
    """Of the user also where one looks; what a driver would make is not known there."""
    settings = work.path / ".git" / "config"
    if is_of_user:
        settings = tmp_path / "gitconfig"
        root_site.env["GIT_CONFIG_GLOBAL"] = str(settings)
    for name, value in SETTINGS.items():
        work.ok("config", "--file", settings, name, value)
    (work.path / ".git" / "info").mkdir(exist_ok=True)
    (work.path / ".git" / "info" / "attributes").write_text("file merge=both\n")
    work.write(".gitattributes", text="file filter=upper\n")
    work.ok("add", "--renormalize", "--all")
    work.ok("commit", "--quiet", "-m", "filtered")
    one, two = root_site.spawn("one"), root_site.spawn("two")
    root_site.done("one", "one\n", here=one)
    root_site.done("two", "two\n", here=two)
    assert root_site.at(one).ok("show", "HEAD:file") == "ONE"
    (clash,) = root_site.records("task", "forecast")
    assert clash["not_known"]
    assert root_site.records("task", "board")[0]["problem"] is None
    (one / "file").touch()  # git looks at what is in it again
    root_site.bus("integrate", "--once", "--into", "main")
    assert set(work.ok("show", "main:file").split()) == {"ONE", "TWO"}
    dry = root_site.bus("task", "clean", "one", "--dry-run", code=0 if is_of_user else 3)
    assert ("not clean" in dry.out) != is_of_user
    root_site.bus("task", "clean", "one")


def test_partial_clone_says_what_it_lacks_and_fetches_it_to_land(
    root_site: Site, work: Git, tmp_path: Path
) -> None:
    hub = Git(tmp_path / "hub", root_site.env)
    work.ok("clone", "--quiet", "--bare", ".", hub.path)
    hub.ok("config", "uploadpack.allowFilter", "true")
    hub.ok("config", "uploadpack.allowAnySHA1InWant", "true")
    other = Git(tmp_path / "other", root_site.env)
    work.ok("clone", "--quiet", hub.path, other.path)
    other.ok("checkout", "--quiet", "-b", "topic")
    other.commit("file", text="1\ntopic\n3\n")
    other.ok("push", "--quiet", "origin", "topic")
    shutil.rmtree(work.path / ".git")
    work.ok("clone", "--quiet", "--filter=blob:none", hub.path.as_uri(), tmp_path / "partial")
    shutil.move(tmp_path / "partial" / ".git", work.path / ".git")
    work.ok("branch", "--quiet", "topic", "origin/topic")
    work.ok("checkout", "--quiet", "-b", "mine", "main")
    work.commit("file", text="mine\n")
    blob = work.ok("rev-parse", "topic:file")
    missing = work.ok("rev-list", "--objects", "--all", "--missing=print").split()
    assert f"?{blob}" in missing
    (clash,) = root_site.records("task", "forecast", "mine", "topic")
    assert clash["not_known"]
    assert f"?{blob}" in work.ok("rev-list", "--objects", "--all", "--missing=print").split()
    landed = root_site.bus("integrate", "--branch", "topic", "--into", "main")
    assert "topic: landed" in landed.out
    assert work.ok("show", "main:file") == "1\ntopic\n3"


def test_repository_that_only_a_row_names_is_told_of_until_it_is_trusted(
    root_site: Site, tmp_path: Path
) -> None:
    """A look ends well, does not go there, and says how to trust it; a variable is for CI."""
    elsewhere, bus_dir = tmp_path / "elsewhere", tmp_path / "bus"
    elsewhere.mkdir()
    Bus.init(bus_dir).close()
    root_site.env["BUS_DIR"] = str(bus_dir)
    for task in ("one", "two"):
        root_site.at(root_site.spawn(task)).commit("file", text=f"{task}\n")
    look = [("task", "board", "--once"), ("task", "forecast"), ("task", "clean", "--dry-run")]
    for line in look:
        ended = root_site.run_bus(*line, cwd=elsewhere, env=root_site.env)
        assert ended.code in (0, 4), ended
        assert "Traceback" not in ended.err
        if line[1] != "clean":
            assert f"'bus trust add {root_site.work}'" in ended.err, ended
    for trusted in (str(root_site.work), f"/nowhere{os.pathsep}{root_site.work}/.git", "*"):
        root_site.env["BUS_SAFE_DIRECTORIES"] = trusted
        assert root_site.bus("task", "board", "--once", here=elsewhere).err == ""
        assert "+one" in root_site.bus("task", "diff", "one", here=elsewhere).out


@pytest.fixture
def ci(tmp_path: Path, work: Git, env: dict[str, str]) -> Iterator[Callable[..., str]]:
    """Runs commands as nobody, in a checkout that root has made, as CI in containers does."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root, with setpriv, can run a command as another user")
    for path in (tmp_path, *tmp_path.parents):
        if not path.stat().st_mode & 1:
            path.chmod(path.stat().st_mode | 0o11)
    home = tmp_path / "nobody"
    home.mkdir()
    os.chown(home, 65534, 65534)
    env |= {"HOME": str(home), "BUS_DIR": str(home / "bus"), "XDG_CONFIG_HOME": str(home / "c")}

    def run(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words],
            cwd=work.path,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if "No such file" in done.stderr or "ermission" in done.stderr:
            pytest.skip(f"another user can't run this installation: {done.stderr[-200:]}")
        assert done.returncode == code, (words, done)
        return done.stdout + done.stderr

    yield run
    shutil.rmtree(home)


def test_ci_as_another_user_looks_into_a_checkout_that_root_has_made(
    ci: Callable[..., str], work: Git, env: dict[str, str]
) -> None:
    work.ok("checkout", "--quiet", "-b", "topic")
    work.commit("file", text="topic\n")
    work.ok("checkout", "--quiet", "-b", "other", "main")
    work.commit("file", text="other\n")
    ci("bus", "init")
    told = ci("bus", "task", "forecast", "topic", "other", code=1)
    assert "safe.directory" in told
    env["GIT_CONFIG_GLOBAL"] = f"{env['HOME']}/.gitconfig"
    ci("git", "config", "--global", "safe.directory", str(work.path))
    assert "file" in ci("bus", "task", "forecast", "topic", "other")
