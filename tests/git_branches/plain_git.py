"""Git as tests run it: no settings of a user, one author, and an error for every failure."""

import os
import subprocess
from pathlib import Path

AUTHOR = {
    **{f"GIT_{who}_NAME": "a" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "a@example.com" for who in ("AUTHOR", "COMMITTER")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "LC_ALL": "C",
}


def git(path: Path, *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=path, env=os.environ | AUTHOR, capture_output=True, check=False
    )
    assert done.returncode == code, done
    return os.fsdecode(done.stdout).rstrip("\n")


def commit(path: Path, branch: str, base: str, **files: str) -> str:
    """Makes a branch with one commit more, and returns that."""
    git(path, "checkout", "--quiet", "-B", branch, base)
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--message", branch)
    return git(path, "rev-parse", "HEAD")
