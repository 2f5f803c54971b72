"""A repository with something of everything, in which planters put their traps."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..looking.surroundings import Surroundings

#: What marks the three kinds of signatures that git has a program for.
SIGNATURES = {
    "openpgp": "-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----",
    "ssh": "-----BEGIN SSH SIGNATURE-----\nx\n-----END SSH SIGNATURE-----",
    "x509": "-----BEGIN SIGNED MESSAGE-----\nx\n-----END SIGNED MESSAGE-----",
}

FIRST = "1\n2\n3\n4\n5\n"


@dataclass(frozen=True)
class Place:
    """A repository, its clone of all branches without a work tree, and where a stranger's is.

    Attributes:
        root: the folder of all.
        around: the commands that traps call.
        tree: the work tree, or a bare repository.
    """

    root: Path
    around: Surroundings
    tree: Path

    @property
    def git_dir(self) -> Path:
        """The repository itself."""
        return self.tree / ".git" if (self.tree / ".git").exists() else self.tree

    @property
    def hub(self) -> Path:
        """The bare repository that is its `origin`."""
        return self.root / "hub.git"

    @property
    def stranger(self) -> Path:
        """A work tree elsewhere, with the same history."""
        return self.root / "stranger"

    def git(
        self, *arguments: str, stdin: str = "", where: Path | None = None, fails: bool = False
    ) -> str:
        """Runs plain git, which must do well unless it may fail."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=where or self.tree,
            env=plain(self.around.environment),
            input=stdin,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=60,
            check=False,
        )
        assert fails or done.returncode == 0, done
        return done.stdout.rstrip("\n")

    def commit(self, message: str, *settings: str) -> None:
        """Commits what is staged, whatever was planted before."""
        alone = ("core.hooksPath=/dev/null", "commit.gpgSign=false", *settings)
        options = [word for setting in alone for word in ("-c", setting)]
        self.git(*options, "commit", "-qm", message, "--allow-empty")

    def unpack(self, pack: Path) -> None:
        """Stores the objects of a pack one by one."""
        with pack.open("rb") as file:
            subprocess.run(
                ["git", "unpack-objects", "-q"],
                cwd=self.tree,
                env=plain(self.around.environment),
                stdin=file,
                timeout=60,
                check=True,
            )

    def configure(self, settings: Mapping[str, str], file: Path | None = None) -> None:
        """Adds settings to the repository's own, or to another file of settings."""
        for key, value in settings.items():
            self.git("config", "--file", str(file or self.git_dir / "config"), key, value)

    def write(self, name: str, text: str) -> Path:
        """Writes a file of the repository itself."""
        path = self.git_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def move_out(self, name: str) -> Path:
        """Moves a part of the repository to the stranger's folder, and puts a link in its place."""
        target = self.root / "moved" / name
        target.parent.mkdir(exist_ok=True)
        (self.git_dir / name).rename(target)
        (self.git_dir / name).symlink_to(target)
        return target


def plain(env: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment in which no start of git is noted."""
    _, *rest = env["PATH"].split(os.pathsep)
    return {**env, "PATH": os.pathsep.join(rest)}


def make_template(root: Path, around: Surroundings) -> Place:
    """Makes a repository whose `main`, `topic` and `other` change the same line in three ways."""
    place = Place(root, around, root / "clone")
    place.tree.mkdir(parents=True)
    place.git("init", "-q", "-b", "main")
    (place.tree / "a.txt").write_text(FIRST)
    (place.tree / "b.txt").write_text(FIRST)
    place.git("add", "-A")
    place.git("commit", "-qm", "first")
    for branch in ("topic", "other"):
        place.git("checkout", "-q", "-b", branch, "main")
        (place.tree / "a.txt").write_text(FIRST.replace("3", branch))
        place.git("commit", "-qam", branch)
    place.git("checkout", "-q", "main")
    (place.tree / "a.txt").write_text(FIRST.replace("3", "main"))
    place.git("commit", "-qam", "second")
    for name, signature in SIGNATURES.items():
        place.git("branch", f"signed-{name}", _signed(place, signature))
    place.git("clone", "-q", "--bare", str(place.tree), str(place.hub))
    place.git("clone", "-q", str(place.hub), str(place.stranger))
    place.git("remote", "add", "origin", str(place.hub))
    place.git("fetch", "-q", "origin")
    return place


def copy_of(template: Place, root: Path) -> Place:
    """Copies a repository with all around it, but for the marks."""
    shutil.copytree(template.root, root, symlinks=True)
    made = Place(root, template.around, root / "clone")
    made.git("remote", "set-url", "origin", str(made.hub))
    made.git("remote", "set-url", "origin", str(made.hub), where=made.stranger)
    return made


def _signed(place: Place, signature: str) -> str:
    """Makes a commit on the newest that claims to be signed; returns its id."""
    head, _, message = place.git("cat-file", "commit", "HEAD").partition("\n\n")
    lines = signature.replace("\n", "\n ")
    text = f"{head}\ngpgsig {lines}\n\n{message}\n"
    return place.git("hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=text)
