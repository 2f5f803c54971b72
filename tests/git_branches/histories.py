"""Random histories for git: commits on several branches, some with merges, made in one process.

Files are edited, added, deleted, renamed, made executable or links; folders are renamed, and take
the place of files; some content is binary, and some entries are submodules.
"""

import random
import subprocess
from pathlib import Path

#: The files of a commit: a mode and the content of each; a submodule's content is its commit.
Files = dict[str, tuple[str, bytes]]

FOLDERS = ("", "src/", "src/deep/", "doc/", "täst/", "a b/")


class History:
    """Makes commits in an empty repository.

    Attributes:
        heads: the branches, by name, each with its files.
    """

    def __init__(self, seed: int, heads: int = 5) -> None:
        self._random = random.Random(seed)
        self._stream: list[bytes] = []
        self._marks: list[tuple[int, Files]] = []
        files = {f"{self._folder()}f{number}": self._new() for number in range(14)}
        files["module"] = ("160000", b"1" * 40)
        root = self._commit("main", files, [])
        trunk = [root]
        for _ in range(3):
            trunk.append(self._next("main", trunk[-1:]))
        self.heads = [f"head-{number}" for number in range(heads)]
        tips = [self._random.choice(trunk) for _ in self.heads]
        for _ in range(3):
            for place, name in enumerate(self.heads):
                parents = [tips[place]]
                if self._random.random() < 0.3:  # crossed where another takes this one before
                    parents.append(self._random.choice(tips))
                tips[place] = self._next(name, parents)

    def write(self, path: Path) -> None:
        """Makes the repository."""
        subprocess.run(["git", "init", "--quiet", "-b", "main", path], check=True)
        subprocess.run(
            ["git", "fast-import", "--quiet"], cwd=path, input=b"".join(self._stream), check=True
        )

    def _next(self, branch: str, parents: list[int]) -> int:
        files = dict(self._marks[parents[0] - 1][1])
        for other in parents[1:]:
            for name, entry in self._marks[other - 1][1].items():
                if self._random.random() < 0.5 and (name in files or not _clashes(name, files)):
                    files[name] = entry
        for _ in range(self._random.randint(1, 3)):
            self._change(files)
        return self._commit(branch, files, list(dict.fromkeys(parents)))

    def _commit(self, branch: str, files: Files, parents: list[int]) -> int:
        mark = len(self._marks) + 1
        self._marks.append((mark, files))
        lines = [f"commit refs/heads/{branch}\nmark :{mark}\n".encode()]
        lines += [b"committer A <a@example.com> 1700000000 +0000\ndata 1\nx\n"]
        words = ("from", *["merge"] * len(parents))
        lines += [f"{word} :{each}\n".encode() for word, each in zip(words, parents, strict=False)]
        lines.append(b"deleteall\n")
        for name, (mode, content) in files.items():
            if mode == "160000":
                lines.append(b"M 160000 %s %s\n" % (content, name.encode()))
            else:
                lines.append(f"M {mode} inline {name}\ndata {len(content)}\n".encode())
                lines.append(content + b"\n")
        self._stream += lines
        return mark

    def _change(self, files: Files) -> None:
        kind = self._random.choice(
            ("edit", "edit", "edit", "add", "delete", "rename", "mode", "folder", "swap", "module")
        )
        plain = sorted(name for name, (mode, _) in files.items() if mode != "160000")
        name = self._random.choice(plain or ["module"])
        mode, content = files.get(name, ("100644", b""))
        if kind == "edit":
            files[name] = (mode, self._edited(content))
        elif kind == "mode":
            files[name] = ("100755" if mode == "100644" else "100644", content)
        elif kind == "module":
            files["module"] = ("160000", self._random.choice(b"23456789abcdef").to_bytes() * 40)
        elif kind == "folder":
            self._rename_folder(files, name)
        else:
            if kind != "add":
                files.pop(name, None)
            new = f"{self._folder()}f{self._random.randrange(20)}"
            if kind == "swap":  # a file becomes a folder
                new = f"{name}/f{self._random.randrange(3)}"
            if kind == "add":
                mode, content = self._new()
            elif self._random.random() < 0.5:
                content = self._edited(content)
            if kind != "delete" and not _clashes(new, files):
                files[new] = (mode, content)

    def _rename_folder(self, files: Files, name: str) -> None:
        folder, slash, _ = name.rpartition("/")
        if slash:
            new = self._random.choice(("moved", "src/moved", "doc", "x y"))
            for each in [each for each in files if each.startswith(folder + "/")]:
                target = new + each.removeprefix(folder)
                if target != each and not _clashes(target, files):
                    files[target] = files.pop(each)

    def _new(self) -> tuple[str, bytes]:
        if self._random.random() < 0.15:
            return "100644", self._random.randbytes(300)
        lines = [f"line {n} {self._random.randrange(3)}\n" for n in range(12)]
        return "100644", "".join(lines).encode()

    def _edited(self, content: bytes) -> bytes:
        lines = content.split(b"\n")
        lines[self._random.randrange(len(lines))] = b"changed %d" % self._random.randrange(1000)
        return b"\n".join(lines)

    def _folder(self) -> str:
        return self._random.choice(FOLDERS)


def _clashes(name: str, files: Files) -> bool:
    """Whether a new file would take the place of another, or of a folder, or lie below a file."""
    return any(
        each.startswith(f"{name}/") or name == each or name.startswith(f"{each}/") for each in files
    )
