"""Each way in which a repository may have git run a program, with what runs it in plain git."""

import os
import pty
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .place import FIRST, Place, plain

#: Puts a trap into a repository; the other argument is the command that it calls.
Plant = Callable[[Place, str], None]

#: Has plain git run the command.
Trigger = Callable[[Place], object]


@dataclass(frozen=True)
class Planter:
    """A trap.

    Attributes:
        name: also that of its mark.
        plant: puts it into a repository.
        trigger: the natural command that runs it; None: no git that we know does.
        why: of one without a trigger, why it is tried all the same.
        from_tree: whether it is of a work tree, and means nothing to a bare repository.
        is_alone: whether it would hide others in the same repository.
    """

    name: str
    plant: Plant
    trigger: Trigger | None
    why: str = ""
    from_tree: bool = False
    is_alone: bool = False


def git(*arguments: str, stdin: str = "") -> Trigger:
    """A command of git that may fail."""
    return lambda place: place.git(*arguments, stdin=stdin, fails=True)


def edited(*arguments: str, stdin: str = "") -> Trigger:
    """The same, after a tracked file was changed."""

    def run(place: Place) -> None:
        (place.tree / "a.txt").write_text(FIRST + "6\n")
        place.git(*arguments, stdin=stdin, fails=True)

    return run


def on_terminal(command: str, keys: bytes = b"") -> Trigger:
    """A command of git on a terminal, with keys typed there, after a tracked file was changed."""

    def run(place: Place) -> None:
        (place.tree / "a.txt").write_text(FIRST + "6\n")
        ours, theirs = pty.openpty()
        os.write(ours, keys)
        env = plain(place.around.environment) | {"TERM": "xterm"}
        words = ["git", *command.split()]
        with subprocess.Popen(
            words, cwd=place.tree, env=env, stdin=theirs, stdout=theirs, stderr=theirs
        ) as process:
            process.wait(60)
        os.close(ours)
        os.close(theirs)

    return run


def settings(**given: str) -> Plant:
    """Settings of the repository; `CMD` stands for the command, and `__` for the dots of a key."""

    def plant(place: Place, command: str) -> None:
        own = {key.replace("__", "."): value for key, value in given.items()}
        place.configure(
            {key.replace("CMD", command): own[key].replace("CMD", command) for key in own}
        )

    return plant


def attributed(attribute: str, **given: str) -> Plant:
    """Settings, and an attribute of all files in the repository itself."""

    def plant(place: Place, command: str) -> None:
        settings(**given)(place, command)
        path = place.git_dir / "info" / "attributes"
        path.parent.mkdir(exist_ok=True)
        with path.open("a") as file:
            file.write(f"a.txt {attribute}\n")

    return plant


def tracked(attribute: str, **given: str) -> Plant:
    """Settings, and an attribute of all files in a tracked file."""

    def plant(place: Place, command: str) -> None:
        settings(**given)(place, command)
        (place.tree / ".gitattributes").write_text(f"a.txt {attribute}\n")
        place.git("add", ".gitattributes")
        place.commit("attributes", "filter.f.clean=cat")

    return plant


def hook(name: str) -> Plant:
    def plant(place: Place, command: str) -> None:
        path = place.write(f"hooks/{name}", f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)

    return plant


def _hooks_path(place: Place, command: str) -> None:
    folder = Path(command).parent / "other-hooks"
    folder.mkdir(exist_ok=True)
    (folder / "post-checkout").write_text(f"#!/bin/sh\nexec {command}\n")
    (folder / "post-checkout").chmod(0o755)
    place.configure({"core.hooksPath": str(folder)})


def _signer(format: str, key: str) -> Planter:
    given = {"log__showSignature": "true", key: "CMD", "gpg__ssh__allowedSignersFile": "/dev/null"}
    return Planter(f"signature-{format}", settings(**given), git("log", "-1", f"signed-{format}"))


CHECKOUT, COMMIT = git("checkout", "-q", "topic"), git("commit", "--allow-empty", "-m", "x")
PUSH_TO_ITSELF = git("push", "-q", ".", "HEAD:refs/heads/new")
MERGE, LAST = git("merge", "topic"), git("diff", "HEAD~1", "HEAD")
FILL = git("credential", "fill", stdin="protocol=https\nhost=localhost\n\n")
PATCH = git("am", stdin="From x\nFrom: a <a@b>\nSubject: x\n\n---\n")

_HOOKS = {
    "post-checkout": CHECKOUT,
    **dict.fromkeys(("pre-commit", "commit-msg", "prepare-commit-msg", "post-commit"), COMMIT),
    "post-index-change": edited("add", "a.txt"),
    "reference-transaction": git("branch", "new"),
    "pre-merge-commit": git("merge", "--no-ff", "--no-edit", "signed-ssh"),
    "post-merge": git("merge", "--no-edit", "signed-ssh"),
    "pre-rebase": git("rebase", "topic"),
    "post-rewrite": git("commit", "--amend", "--no-edit"),
    "pre-push": git("push", "-q", "origin", "HEAD:refs/heads/new"),
    **dict.fromkeys(("pre-receive", "update", "post-receive", "post-update"), PUSH_TO_ITSELF),
}

HOOKS = [Planter(f"hook-{name}", hook(name), trigger) for name, trigger in _HOOKS.items()]

#: Settings that name a program, each with what runs it.
PROGRAMS = [
    Planter("fsmonitor", settings(core__fsmonitor="CMD"), git("status"), from_tree=True),
    Planter("hooks-path", _hooks_path, CHECKOUT, from_tree=True, is_alone=True),
    Planter("editor", settings(core__editor="CMD"), git("commit", "--amend"), from_tree=True),
    Planter("sequence-editor", settings(sequence__editor="CMD"), git("rebase", "-i", "HEAD~1")),
    Planter("pager", settings(core__pager="CMD"), on_terminal("log")),
    Planter("pager-of-a-command", settings(pager__log="CMD"), on_terminal("log")),
    Planter("alias", settings(alias__st="!CMD"), git("st")),
    Planter(
        "diff-filter-of-people",
        settings(interactive__diffFilter="CMD"),
        on_terminal("add -p", b"q\n"),
        from_tree=True,
    ),
    Planter("ask-pass", settings(core__askPass="CMD"), FILL),
    Planter("credential-helper", settings(credential__helper="CMD"), FILL),
    Planter(
        "trailer",
        settings(trailer__t__cmd="CMD"),
        git("interpret-trailers", "--trailer", "t=x", stdin="x\n"),
    ),
    Planter(
        "trailer-of-old",
        settings(trailer__o__command="CMD"),
        git("interpret-trailers", stdin="x\n"),
    ),
    Planter(
        "browser",
        settings(browser__b__cmd="CMD"),
        git("web--browse", "--browser=b", "http://localhost"),
    ),
    Planter("man-viewer", settings(man__viewer="x", man__x__cmd="CMD"), git("help", "-m", "git")),
    Planter("diff-tool", settings(difftool__d__cmd="CMD"), git("difftool", "-yt", "d", "HEAD~1")),
    Planter(
        "archive-format", settings(tar__z__command="CMD"), git("archive", "--format=z", "HEAD")
    ),
    Planter(
        "commit-signature",
        settings(commit__gpgSign="true", gpg__program="CMD"),
        COMMIT,
        from_tree=True,
        is_alone=True,
    ),
    Planter(
        "signing-key",
        settings(commit__gpgSign="true", gpg__format="ssh", gpg__ssh__defaultKeyCommand="CMD"),
        COMMIT,
        from_tree=True,
        is_alone=True,
    ),
    _signer("openpgp", "gpg__program"),
    _signer("ssh", "gpg__ssh__program"),
    _signer("x509", "gpg__x509__program"),
    Planter(
        "pack-objects-hook",
        settings(uploadpack__packObjectsHook="CMD"),
        None,
        "git takes it from the settings of the user alone",
    ),
    Planter(
        "config-hook",
        settings(hook__h__command="CMD", hook__h__event="post-checkout"),
        None,
        "git has hooks in settings since 2.54",
    ),
]

#: Programs that attributes of files ask for.
DRIVERS = [
    Planter("external-diff", settings(diff__external="CMD"), LAST, is_alone=True),
    Planter("diff-driver", attributed("diff=d", diff__d__command="CMD"), LAST, is_alone=True),
    Planter("textconv", attributed("diff=t", diff__t__textconv="CMD"), LAST),
    Planter("merge-driver", attributed("merge=m", merge__m__driver="CMD %O %A %B"), MERGE),
    Planter("filter-clean", attributed("filter=f", filter__f__clean="CMD"), edited("add", "a.txt")),
    Planter("filter-smudge", attributed("filter=f", filter__f__smudge="CMD"), CHECKOUT),
    Planter(
        "filter-process",
        attributed("filter=p", filter__p__process="CMD"),
        edited("add", "a.txt"),
        is_alone=True,
    ),
    *(
        Planter(f"tracked-{name}", tracked(attribute, **given), trigger, from_tree=True)
        for name, attribute, given, trigger in (
            ("textconv", "diff=t", {"diff__t__textconv": "CMD"}, git("show", "topic")),
            ("merge-driver", "merge=m", {"merge__m__driver": "CMD %A"}, MERGE),
            ("filter", "filter=f", {"filter__f__clean": "CMD"}, edited("diff")),
        )
    ),
]
