"""A forecast goes by the attributes of the first commit, and runs no driver and no filter."""

import subprocess
from pathlib import Path

import pytest

from ackbus.git.branches.forecast import (
    Forecast,
    UnknownForecast,
    attribute_files,
    conflicts,
    with_attributes,
)
from ackbus.git.repository import CommandFailed
from ackbus.git.sealed import sealed_around

from .plain_git import git

#: Attributes of a file, and what they make of changes that clash as text, and of others.
SAID = {
    "merge=evil": ("not known", "not known"),
    "merge=driver-of-nobody": ("not known", "not known"),
    "filter=evil": ("not known", "not known"),
    "merge=union": ("merges", "merges"),
    "-merge": ("clashes", "clashes"),
    "merge=binary": ("clashes", "clashes"),
    "merge=text": ("clashes", "merges"),
    "diff=evil": ("clashes", "merges"),
    "text=auto": ("clashes", "merges"),
}

BASE = "1\n2\n3\n4\n5\n"
TOP, OTHER_TOP, END = (BASE.replace(*pair) for pair in (("1", "one"), ("1", "uno"), ("5", "five")))


def write_commits(path: Path, attributes: str) -> None:
    """A commit `main` with a file for each attribute, and three branches that change each file."""
    stream = [_commit("main", 1, {".gitattributes": attributes} | dict.fromkeys(_names(), BASE))]
    for name in _names():
        for branch, text in (("top", TOP), ("other", OTHER_TOP), ("end", END)):
            stream.append(_commit(f"{name}/{branch}", 0, {name: text}))
    subprocess.run(
        ["git", "fast-import", "--quiet"], cwd=path, input="".join(stream), text=True, check=True
    )


def _names() -> list[str]:
    return [f"f{number}" for number in range(len(SAID))]


def _commit(branch: str, mark: int, files: dict[str, str]) -> str:
    head = f"commit refs/heads/{branch}\n" + ("mark :1\n" if mark else "")
    head += "committer ann <ann@localhost> 1 +0000\ndata 1\nx\n" + ("" if mark else "from :1\n")
    return head + "".join(
        f"M 100644 inline {name}\ndata {len(text)}\n{text}\n" for name, text in files.items()
    )


def word(forecast: Forecast) -> str:
    if forecast is None:
        return "merges"
    return "not known" if isinstance(forecast, UnknownForecast) else "clashes"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user and the repository have each a driver that leaves a mark where it is run."""
    path = tmp_path / "repository"
    git(tmp_path, "init", "--quiet", "-b", "main", str(path))
    mine = tmp_path / "mine"
    for config in (mine, path / ".git" / "config"):
        for key in ("merge.evil.driver", "filter.evil.clean", "diff.evil.textconv"):
            git(path, "config", "--file", str(config), key, f"touch {tmp_path}/it-ran; false")
    git(path, "config", "--file", str(mine), "core.attributesFile", f"{tmp_path}/attributes")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(mine))
    return path


@pytest.mark.parametrize("where", ["the tree", "the repository", "the user"])
def test_attributes_say_what_is_known(repository: Path, where: str) -> None:
    text = "".join(f"{name} {said}\n" for name, said in zip(_names(), SAID, strict=True))
    write_commits(repository, text if where == "the tree" else "f0 merge=text\n")
    if where == "the repository":
        (repository / ".git" / "info").mkdir(exist_ok=True)
        (repository / ".git" / "info" / "attributes").write_text(text)
    elif where == "the user":
        (repository.parent / "attributes").write_text(text)
    pairs = [
        (
            git(repository, "rev-parse", f"{name}/top"),
            git(repository, "rev-parse", f"{name}/{other}"),
        )
        for name in _names()
        for other in ("other", "end")
    ]
    found = [word(each) for each in conflicts(sealed_around(str(repository)), pairs)]
    wanted = dict(SAID)
    if where == "the user":  # the tree's own attributes go before
        wanted["merge=evil"] = SAID["merge=text"]
    assert dict(zip(SAID, zip(found[::2], found[1::2], strict=True), strict=True)) == wanted
    assert not (repository.parent / "it-ran").exists()


def test_attributes_whose_object_is_missing_leave_it_unknown(repository: Path) -> None:
    """As in a partial clone: nothing is fetched, and other pairs are told."""
    write_commits(repository, "f0 merge=union\n")
    sealed = sealed_around(str(repository))
    with (
        pytest.raises(CommandFailed, match="is missing"),
        with_attributes(sealed, frozenset({(".gitattributes", "1" * 40)})),
    ):
        pass


@pytest.mark.parametrize("place", ["mine", "repository/.git/config"])
def test_a_driver_for_all_files_is_not_run_either(repository: Path, place: str) -> None:
    git(repository, "config", "--file", str(repository.parent / place), "merge.default", "evil")
    write_commits(repository, "f6 merge=text\n")
    pairs = [
        (git(repository, "rev-parse", f"{name}/top"), git(repository, "rev-parse", f"{name}/end"))
        for name in ("f0", "f6")
    ]
    found = [word(each) for each in conflicts(sealed_around(str(repository)), pairs)]
    assert found == ["not known", "merges"]
    assert not (repository.parent / "it-ran").exists()


@pytest.mark.parametrize(
    "path",
    [
        *("../out/.gitattributes", "a/../../out/.gitattributes", "/out/.gitattributes"),
        *(".git/.gitattributes", ".gitattributes/.gitattributes", f"{'x' * 300}/.gitattributes"),
    ],
)
def test_a_path_of_a_tree_leads_out_of_no_folder(repository: Path, path: str) -> None:
    write_commits(repository, "f0 merge=union\n")
    sealed = sealed_around(str(repository))
    main = git(repository, "rev-parse", "main")
    (own,) = attribute_files(sealed, {main: ["f0"]})[main]
    with with_attributes(sealed, frozenset({own, (path, own[1])})) as prepared:
        below = list(Path(prepared.folder).parent.rglob(".gitattributes"))
        assert below == [Path(prepared.folder, ".gitattributes")]
    assert not Path("/out").exists()
