"""Runs the examples of a Markdown document.

A reader who types the blocks of a document from top to bottom gets what it shows. So all blocks of
one document run in order, in one shell, in one empty folder, with the installed ``bus`` on PATH:

``console``
    A line that starts with ``$ `` is a command; ``> `` lines right after it continue it. The other
    lines are its whole output (stdout and stderr); ``...`` stands for any text, as in doctest. The
    command must end with 0: to show a failure, write ``$ bus poll alice; echo "exit $?"``.
    A command that ends with ``&`` runs, unseen, until the document ends.
``sh``
    A script for the same shell. It must end with 0; its output is free.
``python``
    A program in a process of its own. It must end with 0; its output is free.

A ``python`` or ``sh`` block whose first line (the second, below ``#!``) is a comment with a file's
name alone, ``# worker.py``, is what a reader saves under that name: it is written there, may be
started, and is not run.

``no-run`` after the language leaves a block out, for the reason that a comment just above it gives:
``<!-- no-run: needs two terminals -->``. Blocks in other languages are only read.
"""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

RUN = {"console", "python", "sh"}
#: Other names of the languages above; under them a block would go unnoticed.
MISNAMED = {"bash", "ksh", "py", "pycon", "shell", "shell-session", "shellsession", "zsh"}
#: Seconds for all blocks of one document.
TIMEOUT_S = 100
#: Begins the line that the script prints after the output of each step.
MARK = "end of snippet step:"
#: How a step ends that did well.
WELL = "exit code 0"

_FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)")
_SAVED = re.compile(r"# ([\w-]+\.(?:py|sh))")
_REASON = re.compile(r"<!-- no-run: \S.*-->")


class SnippetError(Exception):
    """A block is malformed, or did not do what its document shows."""


@dataclass(frozen=True)
class Block:
    """A fenced block; ``line`` is the line of its opening fence."""

    line: int
    language: str
    body: list[str]


@dataclass(frozen=True)
class Step:
    """One piece of shell to run; ``expected`` None leaves the output free."""

    line: int
    command: str
    expected: str | None


def read_blocks(text: str, name: str) -> list[Block]:
    """The blocks of a Markdown text that are to be run."""
    blocks: list[Block] = []
    lines = enumerate(text.splitlines(), start=1)
    above = ""
    for number, line in lines:
        if opening := _FENCE.fullmatch(line):
            body = _read_body(lines, opening, f"{name}:{number}")
            if _is_run(opening["info"].split(), above, f"{name}:{number}"):
                blocks.append(Block(number, opening["info"].split()[0], body))
        above = line.strip() or above
    return blocks


def _read_body(lines: Iterator[tuple[int, str]], opening: re.Match[str], where: str) -> list[str]:
    closing = re.compile(rf" *{opening['fence']}{opening['fence'][0]}* *")
    body: list[str] = []
    for _, line in lines:
        if closing.fullmatch(line):
            return body
        body.append(line.removeprefix(opening["indent"]))
    raise SnippetError(f"{where}: the block is never closed")


def _is_run(info: list[str], above: str, where: str) -> bool:
    match info:
        case []:
            raise SnippetError(f"{where}: the block names no language")
        case [language, *_] if language in MISNAMED:
            raise SnippetError(f"{where}: write console, sh or python, not {language}")
        case [language]:
            return language in RUN
        case [_, "no-run"]:
            if not _REASON.fullmatch(above):
                raise SnippetError(f"{where}: no-run needs <!-- no-run: reason --> just above it")
            return False
    raise SnippetError(f"{where}: only no-run may follow the language")


def read_steps(block: Block, name: str, programs: Path) -> list[Step]:
    """The commands of a block; a ``python`` block becomes a file in ``programs``."""
    first = block.line + 1
    lines = block.body[1:] if block.body[:1] and block.body[0].startswith("#!") else block.body
    if lines and (name_of_file := _SAVED.fullmatch(lines[0])):
        return [Step(first, _saving(name_of_file[1], block.body), None)]
    if block.language == "sh":
        return [Step(first, "\n".join(block.body), None)]
    if block.language == "python":
        program = programs / f"{Path(name).name}-{block.line}.py"
        # Empty lines above it: a traceback then gives the line numbers of the document.
        program.write_text("\n" * block.line + "\n".join(block.body) + "\n")
        return [Step(first, f"python {shlex.quote(str(program))}", None)]
    steps: list[tuple[int, list[str], list[str]]] = []
    for number, line in enumerate(block.body, start=first):
        if line.startswith("$ "):
            steps.append((number, [line[2:]], []))
        elif not steps:
            raise SnippetError(f"{name}:{number}: a console block begins with a command ($ ...)")
        elif (line == ">" or line.startswith("> ")) and not steps[-1][2]:
            steps[-1][1].append(line[2:])
        else:
            steps[-1][2].append(line)
    return [Step(line, "\n".join(command), "\n".join(shown)) for line, command, shown in steps]


def _saving(name: str, lines: list[str]) -> str:
    """The command that saves lines in a file that may be started."""
    return f"printf '%s\\n' {shlex.join(lines)} > {name}; chmod +x {name}"


def matches(expected: str, got: str) -> bool:
    """Whether an output is as shown; ends of lines and outer empty lines do not count."""
    literals = [re.escape(part) for part in _trimmed(expected).split("...")]
    return re.fullmatch(".*".join(literals), _trimmed(got), re.DOTALL) is not None


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def run_document(text: str, name: str, env: Mapping[str, str]) -> None:
    """Runs the blocks of a document; raises SnippetError for the first that is not as shown."""
    with tempfile.TemporaryDirectory(prefix="snippets-", ignore_cleanup_errors=True) as scratch:
        programs = Path(scratch, "programs")
        programs.mkdir()
        steps = [s for b in read_blocks(text, name) for s in read_steps(b, name, programs)]
        results = _run(steps, env, Path(scratch))
    for step, (ending, got) in zip(steps, results, strict=False):
        at = f"{name}:{step.line}: {step.command}"
        if ending != WELL:
            raise SnippetError(f"{at}\n--- {ending}, after\n{_trimmed(got)}")
        if step.expected is not None and not matches(step.expected, got):
            expected = _trimmed(step.expected) or "(nothing)"
            raise SnippetError(f"{at}\n--- expected\n{expected}\n--- got\n{_trimmed(got)}")


def _run(steps: list[Step], env: Mapping[str, str], scratch: Path) -> list[tuple[str, str]]:
    """The exit and the output of each step, up to the first that failed."""
    script, output, project = (scratch / name for name in ("script", "output", "project"))
    script.write_text("".join(map(_as_script, steps)))
    project.mkdir()
    temporary = scratch / "tmp"  # what a demo leaves there goes with the document
    temporary.mkdir()
    with output.open("wb") as file:
        shell = subprocess.Popen(
            ["bash", script],
            cwd=project,
            env={**env, "TMPDIR": str(temporary)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            shell.wait(TIMEOUT_S)
            unmarked = "the shell ended here"
        except subprocess.TimeoutExpired:
            unmarked = f"the {TIMEOUT_S} s of the document are over"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)  # with all that the document left running
            shell.wait()
    *parts, rest = re.split(rf"\n{MARK} (.*)\n", output.read_text("utf-8", "replace"))
    return [*zip(parts[1::2], parts[::2], strict=True), (unmarked, rest)]


def _as_script(step: Step) -> str:
    command = step.command
    if command.endswith("&"):
        command = f"{{ {command.removesuffix('&')}\n}} >/dev/null 2>&1 &"
    return (
        f"eval {shlex.quote(command)}; __code=$?\n"
        f"printf '\\n{MARK} exit code %d\\n' $__code; ((__code == 0)) || exit\n"
    )
