"""The places where files are made, written, renamed or removed, by what the source says.

`docs/writers.md` has a row for each such place, in the form of `docs/starts.md`.
"""

import ast
import re
from collections.abc import Iterator

from .rooms import Module
from .starts import Site, dotted, expressions, imported

#: What changes a folder or a file by its path, by its full name.
_WRITERS = re.compile(
    r"os\.(rename|renames|replace|link|symlink|mkdir|makedirs|mkfifo|mknod|truncate|ftruncate|chmod"
    r"|fchmod|chown|lchown|utime|unlink|remove|rmdir|removedirs)"
    r"|shutil\.(copy\w*|move|rmtree|make_archive|unpack_archive)"
    r"|tempfile\.\w+"
    r"|apsw\.Connection"
    r"|(zipfile|tarfile|sqlite3|gzip|bz2|lzma)\.\w+"
)

#: Our own functions and classes that are told the path, or the folder that holds the name.
_OWN = frozenset(
    {
        *("replace_text", "write_beside", "replace_file", "FileLock", "Enclosure"),
        *("Folder", "locate", "inner_folder", "Database", "copy_database"),
        *("new_folder", "own_folder"),
    }
)

#: Methods of paths, and of what is no path of ours.
_METHODS = frozenset(
    {
        *("write_bytes", "write_text", "touch", "mkdir", "rmdir", "unlink", "symlink_to"),
        *("hardlink_to", "backup", "extractall"),
    }
)

_WRITING = re.compile("[wax+]")
_FLAGS = ("O_CREAT", "O_WRONLY", "O_RDWR", "O_APPEND", "O_TRUNC")


def sites(module: Module) -> Iterator[Site]:
    """Yield the places of a module that write, or hand on what does."""
    names = imported(module.tree)
    for node, function in expressions(module.tree, ""):
        name = _of_call(node, names) if isinstance(node, ast.Call) else _of_name(node, names)
        if name is not None:
            yield Site(module.path.as_posix(), function, node.lineno, name)


def _of_name(node: ast.expr, names: dict[str, str]) -> str | None:
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None
    full, is_imported = dotted(node, names)
    if is_imported and _WRITERS.fullmatch(full):
        return full
    last = full.rpartition(".")[2]
    if last in _OWN and is_imported:
        return last
    if isinstance(node, ast.Attribute) and node.attr in _METHODS and not is_imported:
        return f".{node.attr}"
    return None


def _of_call(node: ast.Call, names: dict[str, str]) -> str | None:
    """Return the name of a call that opens a file to write; of reading ones, None."""
    full, is_imported = dotted(node.func, names)
    if full == "os.open" and is_imported:
        flags = node.args[1] if len(node.args) > 1 else None
        parts = ast.walk(flags) if flags else ()
        words = {part.attr for part in parts if isinstance(part, ast.Attribute)}
        is_plain = isinstance(flags, (ast.BinOp, ast.Attribute)) and "O_RDONLY" in words
        return None if is_plain and not words & set(_FLAGS) else "os.open"
    if full == "open" or (isinstance(node.func, ast.Attribute) and node.func.attr == "open"):
        place = 1 if full == "open" else 0
        modes = [node.args[place]] if len(node.args) > place else []
        modes += [each.value for each in node.keywords if each.arg == "mode"]
        for mode in modes:
            if isinstance(mode, ast.Constant) and isinstance(mode.value, str):
                if re.fullmatch("[rwaxbt+]+", mode.value) and _WRITING.search(mode.value):
                    return "open"
            elif full == "open":
                return "open"
    return None
