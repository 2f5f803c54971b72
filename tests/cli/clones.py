"""Git repositories with a bus each, for tests."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..conftest import Ended, RunBus
from .git import Git


@dataclass(frozen=True)
class Clone:
    """A working copy with a bus of its own."""

    path: Path
    run_bus: RunBus
    env: Mapping[str, str]

    @property
    def bus_dir(self) -> Path:
        return self.path / ".worker-state"

    @property
    def jsonl(self) -> Path:
        return self.bus_dir / "bus.jsonl"

    def try_git(self, *args: str) -> Ended:
        return Git(self.path, self.env)(*args)

    def git(self, *args: str) -> str:
        return Git(self.path, self.env).ok(*args)

    def try_bus(self, *args: str, stdin: str = "") -> Ended:
        return self.run_bus(*args, stdin=stdin, cwd=self.path, env=self.env)

    def bus(self, *args: str, stdin: str = "") -> str:
        done = self.try_bus(*args, stdin=stdin)
        assert done.code == 0, (args, done.err)
        return done.out

    def publish(self, body: str, *args: str, agent: str = "ann") -> str:
        return self.bus("publish", "note", body, "--from", agent, *args).strip()

    def publish_all(self, bodies: Iterable[str]) -> None:
        lines = [json.dumps({"type": "note", "from": "ann", "payload": body}) for body in bodies]
        self.bus("publish", "--jsonl", "-", stdin="\n".join(lines))

    def export(self) -> None:
        self.bus("export")

    def commit(self, subject: str = "work") -> None:
        """Export, and commit if there is anything to."""
        self.bus("export", "--stage")
        self.git("add", "-A")
        if self.git("status", "--porcelain"):
            self.git("commit", "-qm", subject)

    def pull(self, *args: str) -> None:
        """Merge the commits of others, and import them into the bus.

        Git takes a rewritten file for changed until it is added, and merges nothing
        over it; what is added then is nothing.
        """
        self.commit()
        self.git("pull", "-q", *(args or ("--no-rebase",)), "origin", "main")
        self.bus("import")
        self.export()

    def push(self) -> None:
        self.git("push", "-q", "origin", "HEAD:main")

    def in_git(self) -> list[str]:
        """The lines of bus.jsonl in the last commit."""
        return self.git("show", "HEAD:.worker-state/bus.jsonl").splitlines()

    def ids_in_git(self) -> list[str]:
        return [json.loads(line)["id"] for line in self.in_git()]

    def ids_in_log(self) -> list[str]:
        return [json.loads(line)["id"] for line in self.bus("read", "--json").splitlines()]

    def nothing_to_commit(self) -> bool:
        self.git("add", "-A")
        return self.git("status", "--porcelain") == ""


def assert_same_sets(*clones: Clone) -> None:
    """Every bus, every file and git hold the same messages, none twice."""
    expected = sorted(clones[0].ids_in_log())
    assert len(set(expected)) == len(expected)
    for clone in clones:
        assert sorted(clone.ids_in_log()) == expected
        assert sorted(clone.ids_in_git()) == expected
        assert clone.in_git() == clones[0].in_git()
        assert clone.nothing_to_commit()
        assert_file_is_the_logs_own(clone)


def assert_file_is_the_logs_own(clone: Clone) -> None:
    """Promise 8, also after git has replaced the file: the log's lines, in its order."""
    names = [*sorted(path.name for path in clone.bus_dir.glob("bus-*.jsonl")), "bus.jsonl"]
    exported = "".join((clone.bus_dir / name).read_text() for name in names)
    assert exported == clone.bus("replay", "--from", "1", "--json")
