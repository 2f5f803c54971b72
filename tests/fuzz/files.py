"""Files of a bus that others have changed, and what git is asked of them."""

from dataclasses import dataclass

from hypothesis import strategies as st

from .commands import Commands, Line, check_after, check_ended, git
from .strategies import TOKENS, any_text, lines, mutated, real_lines, samples

_BUS = ".worker-state/bus.jsonl"

_LINES = [*samples("bus.jsonl", "conflict.jsonl"), b"".join(real_lines(5)) or b"\n"]

#: Commands that read the files.
_READERS = [
    *("export", "export --rebuild", "export --rotate 1kB", "import", "replay --from 1 --json"),
    *("doctor", "doctor --full", "segments --verify", "show m-1", "search first", "stats"),
    *("setup git --check", f"git-textconv {_BUS}", f"import {_BUS} --json", "trace m-2"),
    *("blob verify", "poll nobody", "archive --before 4 --idle-after 0s"),
    *("backup ../made", "maintain", "read --conversation m-1", "prompt alice"),
]


@dataclass(frozen=True)
class Damage:
    """The damage of a file, whatever it holds: pieces in place of others.

    Attributes:
        name: which files, as a glob.
        changes: where, as a part of its length; how many bytes go; what comes for them.
        is_torn: whether the last change is its end.
    """

    name: str
    changes: tuple[tuple[float, int, bytes], ...]
    is_torn: bool

    def of(self, data: bytes) -> bytes:
        """Returns what the file holds afterwards."""
        for part, gone, piece in self.changes:
            at = round(part * len(data))
            data = data[:at] + piece + (b"" if self.is_torn else data[at + gone :])
        return data


damages = st.tuples(
    st.builds(
        Damage,
        st.sampled_from([_BUS, ".worker-state/archive/*", ".worker-state/blobs/*"]),
        st.lists(
            st.tuples(
                st.floats(0, 1),
                st.integers(0, 40),
                st.sampled_from([token for token in TOKENS if len(token) < 10_000])
                | st.binary(max_size=8),
            ),
            min_size=1,
            max_size=3,
        ).map(tuple),
        st.booleans(),
    ),
    st.sampled_from(_READERS),
)

git_inputs = lines | mutated(_LINES)
histories = st.tuples(git_inputs, any_text, st.sampled_from(["log", "log --json", "log --type >"]))


def damaged_files(case: tuple[Damage, str], commands: Commands) -> None:
    """No command fails in a way of its own on a file that somebody has damaged."""
    damage, text = case
    project = commands.fresh()
    for path in sorted(project.glob(damage.name)):
        path.write_bytes(damage.of(path.read_bytes()))
    line = Line(tuple(text.split()))
    check_ended(line, commands.run(line))


def git_clean(content: bytes, commands: Commands) -> None:
    """The content for git has every message of the file, or the file is refused."""
    commands.fresh()
    before = commands.stamp()
    line = Line(("git-clean", _BUS), content)
    ended = commands.run(line)
    check_after(line, ended, before, commands)
    if ended.code == 0:
        again = commands.run(Line(line.args, ended.out))
        assert (again.code, again.out) == (0, ended.out)


def git_log(case: tuple[bytes, str, str], commands: Commands) -> None:
    """The history can be read, whatever was committed as bus.jsonl."""
    content, subject, text = case
    project = commands.fresh()
    title = subject.encode("utf-8", "surrogateescape" if subject.isascii() else "replace")
    title = title.replace(b"\0", b"")
    git(
        project,
        *("fast-import", "--quiet", "--force", "--date-format=now"),
        stdin=b"commit HEAD\ncommitter fuzz <fuzz@example.org> now\n"
        b"data %d\n%b\nfrom HEAD^0\nM 100644 inline %b\ndata %d\n%b\n"
        % (len(title), title, _BUS.encode(), len(content), content),
    )
    before = commands.stamp()
    line = Line(tuple(text.split()))
    check_after(line, commands.run(line), before, commands)
