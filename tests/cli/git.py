"""A real git repository for tests: no settings but its own, authors by environment."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..conftest import Ended


@dataclass(frozen=True)
class Git:
    """A work tree, and the environment in which git runs in it."""

    path: Path
    env: Mapping[str, str]

    def __call__(self, *args: str | Path, env: Mapping[str, str] | None = None) -> Ended:
        """Runs git to its end."""
        done = subprocess.run(
            ["git", *args],
            cwd=self.path,
            env={**self.env, **(env or {})},
            capture_output=True,
            timeout=60,
            check=False,
        )
        out, err = (text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr))
        return Ended(done.returncode, out, err)

    def ok(self, *args: str | Path, env: Mapping[str, str] | None = None) -> str:
        """Runs git, which must do well, and returns what it printed."""
        done = self(*args, env=env)
        assert done.code == 0, done
        return done.out.rstrip("\n")

    def write(self, *names: str, text: str = "new\n") -> None:
        """Writes files and stages them."""
        for name in names:
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            self.ok("add", "--", name)

    def commit(self, *names: str, agent: str | None = None, text: str = "new\n") -> Ended:
        """Writes files, and tries to commit all that is staged."""
        self.write(*names, text=text)
        return self("commit", "--quiet", "-m", "change", env={"BUS_AGENT": agent} if agent else {})

    @property
    def head(self) -> str:
        """The newest commit; "" before the first."""
        return self("rev-parse", "--quiet", "--verify", "HEAD").out.strip()


def git_env(bus_env: Mapping[str, str]) -> dict[str, str]:
    """An environment in which git knows nobody's settings."""
    return {key: value for key, value in bus_env.items() if not key.startswith("GIT_")} | _ALONE


_ALONE = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "init.defaultBranch",
    "GIT_CONFIG_VALUE_0": "main",
    "GIT_CONFIG_KEY_1": "protocol.file.allow",
    "GIT_CONFIG_VALUE_1": "always",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "GIT_MERGE_AUTOEDIT": "no",
}
