"""The shape of the source in figures: files, lines, functions, names.

`python tests/architecture/shape.py [REVISION...]` prints a table: a column for each revision of
git, and one for the files as they are.
"""

import ast
import io
import re
import statistics
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]

#: Folders at the top that hold no source of the product.
_BESIDE = {"bench", "docs", "examples", "tests"}

#: Words that say nothing of a value: a noun of the field does.
VAGUE = {
    *("told", "found", "each", "given", "said", "one", "that", "such", "held", "made", "kept"),
    *("seen", "known", "wanted", "gone", "left", "had"),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Binding = ast.expr | ast.arg | ast.excepthandler | ast.pattern
_Scope = Function | ast.Lambda


@dataclass(frozen=True)
class Shape:
    """The figures of a tree; lengths in lines."""

    files: int
    small_files: int
    lines: int
    median_file: float
    median_function: float
    p90_function: float
    longest_function: int
    import_percent: float
    names: int
    vague_names: int
    names_at_the_root: int


def shape(sources: dict[str, str]) -> Shape:
    """Return the figures of source files, by their paths."""
    trees = {path: ast.parse(text) for path, text in sources.items()}
    lengths = [text.count("\n") for text in sources.values()]
    functions = sorted(
        function_lines(node)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    )
    names = [name for tree in trees.values() for name, _ in local_names(tree)]
    return Shape(
        files=len(sources),
        small_files=sum(length < 80 for length in lengths),
        lines=sum(lengths),
        median_file=statistics.median(lengths),
        median_function=statistics.median(functions),
        p90_function=functions[len(functions) * 9 // 10],
        longest_function=functions[-1],
        import_percent=100 * sum(map(import_lines, trees.values())) / sum(lengths),
        names=len(names),
        vague_names=sum(name in VAGUE for name in names),
        names_at_the_root=len(names_at_the_root(sources.get("__init__.py", ""))),
    )


def function_lines(function: Function) -> int:
    """Return the length of a function, from `def`, without its docstring."""
    first, last = function.lineno, function.end_lineno or function.lineno
    lines = last - first + 1
    if ast.get_docstring(function) is None:
        return lines
    docstring = function.body[0]
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def import_lines(tree: ast.Module) -> int:
    """Return how many lines the imports of a module take, in functions too."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports)


def local_names(tree: ast.Module) -> Iterator[tuple[str, Binding]]:
    """Yield each argument and local of each function once, where it is first bound."""
    for function in ast.walk(tree):
        if isinstance(function, _Scope):
            names: dict[str, Binding] = {}
            for name, node in _bound_in(function):
                names.setdefault(name, node)
            yield from names.items()


def _bound_in(function: _Scope) -> Iterator[tuple[str, Binding]]:
    arguments = function.args
    several = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    several += filter(None, (arguments.vararg, arguments.kwarg))
    yield from ((argument.arg, argument) for argument in several)
    body = function.body if isinstance(function.body, list) else [function.body]
    nodes: list[ast.AST] = [*body]
    while nodes:
        node = nodes.pop(0)
        if isinstance(node, _Scope | ast.ClassDef):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node
        nodes.extend(ast.iter_child_nodes(node))


def names_at_the_root(text: str) -> set[str]:
    """Return the public names of the package, from the table `_NAMES` of its root."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_NAMES":
            modules = [
                module for part in ast.literal_eval(node.value).values() for module in part.values()
            ]
            return {name for names in modules for name in names.split()}
    return set()


def files_here() -> dict[str, str]:
    """Return the text of each source file as it is, by its path."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {
        path: (ROOT / path).read_text("utf-8")
        for path in listed.stdout.split()
        if _is_source(path) and (ROOT / path).exists()
    }


def files_at(revision: str) -> dict[str, str]:
    """Return the text of each source file in a revision, by its path."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", revision], cwd=ROOT, capture_output=True, check=True
    )
    sources = {}
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        for member in tar:
            if _is_source(member.name) and (file := tar.extractfile(member)):
                sources[member.name] = file.read().decode()
    return sources


def _is_source(path: str) -> bool:
    return path.endswith(".py") and PurePosixPath(path).parts[0] not in _BESIDE


def table(shapes: dict[str, Shape]) -> str:
    """Return figures as a table of Markdown, a column for each tree."""
    rows = [["", *shapes], ["---", *("---:" for _ in shapes)]]
    for field in Shape.__dataclass_fields__:
        values = (getattr(figures, field) for figures in shapes.values())
        label = re.sub("_percent$", ", %", field).replace("_", " ")
        rows.append([label, *(f"{value:,.1f}".removesuffix(".0") for value in values)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    shapes = {revision: shape(files_at(revision)) for revision in sys.argv[1:]}
    sys.stdout.write(table({**shapes, "now": shape(files_here())}))
