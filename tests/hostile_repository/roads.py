"""Each way in which a repository may lead git elsewhere: to remotes, and to other folders."""

import os
import subprocess
from pathlib import Path

from .place import Place, plain
from .planters import MERGE, PUSH_TO_ITSELF, Planter, Trigger, git, settings

FETCH = git("fetch", "-q", "origin")


def _promisor(place: Place, command: str) -> None:
    """A file of a branch is missing, and the remote that promised it runs the command."""
    blob = place.git("rev-parse", "topic:a.txt")
    place.configure(
        {
            "core.repositoryFormatVersion": "1",
            "extensions.partialClone": "origin",
            "remote.origin.promisor": "true",
            "remote.origin.url": str(place.hub),
            "remote.origin.uploadpack": f"{command}; false",
        }
    )
    (place.git_dir / "objects" / blob[:2] / blob[2:]).unlink()


def _alternate_refs(place: Place, command: str) -> None:
    place.write("objects/info/alternates", f"{place.stranger}/.git/objects\n")
    place.configure({"core.alternateRefsCommand": command})


def _submodule(place: Place, command: str) -> None:
    add = ("submodule", "--quiet", "add", str(place.hub), "sub")
    place.git("-c", "protocol.file.allow=always", *add)
    place.commit("sub")
    place.configure({"submodule.sub.update": f"!{command}"})
    place.git("checkout", "-q", "HEAD~1", where=place.tree / "sub")


def _submodule_url(place: Place, command: str) -> None:
    head = place.git("rev-parse", "HEAD")
    (place.tree / ".gitmodules").write_text(
        f'[submodule "ext"]\n\tpath = ext\n\turl = ext::{command}\n'
    )
    place.git("add", ".gitmodules")
    place.git("update-index", "--add", "--cacheinfo", f"160000,{head},ext")
    place.commit("ext")
    place.configure({"protocol.ext.allow": "always"})


def _merge_tool(place: Place) -> None:
    place.git("merge", "topic", fails=True)
    place.git("mergetool", "-y", "--tool=m", fails=True)


REMOTES = [
    Planter(
        "ssh-command",
        settings(core__sshCommand="CMD", remote__origin__url="ssh://localhost/x"),
        FETCH,
        is_alone=True,
    ),
    Planter(
        "git-proxy",
        settings(core__gitProxy="CMD", remote__origin__url="git://localhost/x"),
        FETCH,
        is_alone=True,
    ),
    Planter("upload-pack", settings(remote__origin__uploadpack="CMD"), FETCH, is_alone=True),
    Planter(
        "receive-pack",
        settings(remote__origin__receivepack="CMD"),
        git("push", "-q", "origin", "HEAD:refs/heads/new"),
    ),
    Planter(
        "external-url",
        settings(remote__origin__url="ext::CMD", protocol__ext__allow="always"),
        FETCH,
        is_alone=True,
    ),
    Planter(
        "remote-helper",
        settings(
            remote__origin__vcs="ext", remote__origin__url="CMD", protocol__ext__allow="always"
        ),
        FETCH,
        is_alone=True,
    ),
    Planter(
        "instead-of",
        settings(
            **{"url__ext::CMD__insteadOf": "x://", "remote__origin__url": "x://"},
            protocol__ext__allow="always",
        ),
        FETCH,
        is_alone=True,
    ),
    Planter(
        "option-as-url",
        settings(remote__origin__url="--upload-pack=CMD"),
        None,
        "git refuses it",
        is_alone=True,
    ),
    Planter("promisor", _promisor, git("show", "topic:a.txt"), is_alone=True),
    Planter("alternate-refs", _alternate_refs, PUSH_TO_ITSELF),
    Planter("submodule-update", _submodule, git("submodule", "update"), from_tree=True),
    Planter("submodule-url", _submodule_url, None, "git refuses such an address", from_tree=True),
    Planter("merge-tool", settings(mergetool__m__cmd="CMD"), _merge_tool, from_tree=True),
]


# Elsewhere: the settings that name the command are in another folder ------------------------------

STATUS: Trigger = git("status")


def _watched(place: Place, command: str, file: Path | None = None) -> None:
    """Has git run the command when it looks at the work tree."""
    place.configure({"core.fsmonitor": command}, file)


def _include(place: Place, command: str) -> None:
    _watched(place, command, place.root / "included")
    place.configure({"include.path": str(place.root / "included")})


def _include_if(place: Place, command: str) -> None:
    _watched(place, command, place.root / "included")
    place.configure({"includeIf.gitdir:**.path": str(place.root / "included")})


def _worktree_config(place: Place, command: str) -> None:
    place.configure({"extensions.worktreeConfig": "true", "core.repositoryFormatVersion": "1"})
    _watched(place, command, place.git_dir / "config.worktree")


def _git_file(place: Place, command: str) -> None:
    _watched(place, command, place.stranger / ".git" / "config")
    place.git_dir.rename(place.root / "aside")
    (place.tree / ".git").write_text(f"gitdir: {place.stranger}/.git\n")


def _common_dir(place: Place, command: str) -> None:
    _watched(place, command, place.stranger / ".git" / "config")
    place.write("commondir", f"{place.stranger}/.git\n")


def _work_tree(place: Place, command: str) -> None:
    _watched(place, command)
    place.configure({"core.worktree": str(place.stranger)})


def _bare_within(place: Place, command: str) -> None:
    """Tracked files that git takes for a repository, where its working directory is among them."""
    within = place.tree / "docs"
    place.git("clone", "-q", "--bare", str(place.hub), str(within))
    settings(core__bare="false", core__worktree=".")(Place(place.root, place.around, within), "")
    _watched(place, command, within / "config")


def _linked(name: str, trigger: Trigger | None = STATUS) -> Planter:
    def plant(place: Place, command: str) -> None:
        _watched(place, command)
        place.move_out(name)

    why = "" if trigger else "git finds no repository there"
    return Planter(f"linked-{name}", plant, trigger, why, from_tree=True, is_alone=True)


def _attributes_file(place: Place, command: str) -> None:
    (place.root / "attributes").write_text("a.txt merge=o\n")
    place.configure({"core.attributesFile": str(place.root / "attributes")})
    place.configure({"merge.o.driver": command})


def _replaced(place: Place, command: str) -> None:
    """The tree of one commit is shown for another's, and one more is said to be its parent."""
    _watched(place, command)
    place.git("replace", "topic", "other")
    place.write("info/grafts", place.git("rev-parse", "main") + "\n")


def _split_index(place: Place, command: str) -> None:
    place.git("update-index", "--split-index")
    place.git("update-index", "--fsmonitor", fails=True)
    _watched(place, command)


def _linked_tree(place: Place, command: str) -> None:
    """A linked work tree whose record says that it is a folder of the stranger's."""
    _watched(place, command)
    place.git("worktree", "add", "-q", "-b", "linked", str(place.root / "linked"))
    place.write("worktrees/linked/gitdir", f"{place.stranger}/.git\n")


def _odd_names(place: Place, command: str) -> None:
    """Branches whose names are options, or have a newline."""
    _watched(place, command)
    head = place.git("rev-parse", "main")
    for name in (f"--output={command}.ran", f"--upload-pack={command}", "-o", "a\nb", "x.lock"):
        place.write(f"refs/heads/{name}", f"{head}\n")
    place.write("HEAD", f"ref: refs/heads/--output={command}.ran\n")


def _pipe(setting: str, command: str) -> Planter:
    """A setting that names a file; whoever opens that waits for ever."""
    name = f"pipe-{setting.lower().replace('.', '-')}"

    def plant(place: Place, _: str) -> None:
        os.mkfifo(place.root / "pipe")
        place.configure({setting: str(place.root / "pipe")})

    def trigger(place: Place) -> None:
        words = ["git", command]
        with subprocess.Popen(
            words, cwd=place.tree, env=plain(place.around.environment), stdout=subprocess.DEVNULL
        ) as process:
            with open(place.root / "pipe", "w"):  # waits until git opens it to read
                place.around.mark(name)
            process.kill()

    return Planter(name, plant, trigger, from_tree=True, is_alone=True)


ELSEWHERE = [
    Planter("include", _include, STATUS, from_tree=True, is_alone=True),
    Planter("include-if", _include_if, STATUS, from_tree=True, is_alone=True),
    Planter("worktree-config", _worktree_config, STATUS, from_tree=True, is_alone=True),
    Planter("git-file", _git_file, STATUS, from_tree=True, is_alone=True),
    Planter("common-dir", _common_dir, STATUS, from_tree=True, is_alone=True),
    Planter("work-tree", _work_tree, STATUS, from_tree=True, is_alone=True),
    Planter(
        "bare-within",
        _bare_within,
        lambda place: place.git("status", where=place.tree / "docs", fails=True),
        from_tree=True,
        is_alone=True,
    ),
    *map(_linked, ("refs", "objects", "index", "config")),
    _linked("HEAD", None),
    Planter("attributes-file", _attributes_file, MERGE, is_alone=True),
    Planter("replaced", _replaced, STATUS, from_tree=True, is_alone=True),
    Planter("split-index", _split_index, STATUS, from_tree=True, is_alone=True),
    Planter("linked-tree", _linked_tree, STATUS, from_tree=True, is_alone=True),
    Planter("odd-names", _odd_names, STATUS, from_tree=True, is_alone=True),
    _pipe("core.excludesFile", "status"),
    _pipe("mailmap.file", "log"),
]
