"""The runner of the documents' examples: what it accepts, and that it fails when it should."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from ..conftest import wait_until
from . import snippets
from .snippets import SnippetError, matches, read_blocks, read_steps, run_document

Run = Callable[[str], None]
Failure = Callable[[str], str]


@pytest.fixture
def run(bus_env: dict[str, str]) -> Run:
    return lambda text: run_document(dedent(text), "doc.md", bus_env)


@pytest.fixture
def failure(run: Run) -> Failure:
    def message(text: str) -> str:
        with pytest.raises(SnippetError) as raised:
            run(text)
        return str(raised.value)

    return message


def commands(body: str) -> list[tuple[int, str, str | None]]:
    (block,) = read_blocks(f"```console\n{dedent(body).strip()}\n```", "doc.md")
    return [(s.line, s.command, s.expected) for s in read_steps(block, "doc.md", Path())]


# Reading


def test_blocks_that_run_are_found_with_their_lines() -> None:
    text = "# T\n\n```console\n$ a\n```\n\n```json\n{}\n```\n\n~~~sh\nb\n~~~\n"
    assert [(b.line, b.language, b.body) for b in read_blocks(text, "doc.md")] == [
        (3, "console", ["$ a"]),
        (11, "sh", ["b"]),
    ]


def test_block_in_a_list_loses_its_indent() -> None:
    (block,) = read_blocks("- so:\n\n  ```sh\n  if a; then\n    b\n  fi\n  ```\n", "doc.md")
    assert block.body == ["if a; then", "  b", "fi"]


def test_longer_fence_holds_shorter_ones() -> None:
    assert read_blocks("````markdown\n```\nno language\n```\n````\n", "doc.md") == []


def test_inline_code_of_three_backticks_is_no_fence() -> None:
    assert read_blocks("```a` is code```\n", "doc.md") == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```\na\n```", "names no language"),
        ("```console\n$ a\n", "never closed"),
        ("```bash\na\n```", "write console, sh or python"),
        ("```console norun\n$ a\n```", "only no-run"),
        ("```console no-run\n$ a\n```", "needs <!-- no-run: reason -->"),
        ("<!-- no-run: -->\n```console no-run\n$ a\n```", "needs <!-- no-run: reason -->"),
        ("<!-- no-run: why -->\ntext\n```sh no-run\na\n```", "needs <!-- no-run: reason -->"),
    ],
)
def test_malformed_block_is_refused_at_its_line(text: str, complaint: str) -> None:
    with pytest.raises(SnippetError, match=rf"^doc\.md:\d: .*{complaint}"):
        read_blocks(text, "doc.md")


def test_block_with_a_reason_is_not_run() -> None:
    text = "<!-- no-run: needs two terminals -->\n\n```console no-run\n$ a\n```\n"
    assert read_blocks(text, "doc.md") == []


def test_commands_are_read_with_their_lines_and_outputs() -> None:
    assert commands("$ a\nx\n\n> y\n$ b\n$ c\nz\n") == [
        (2, "a", "x\n\n> y"),
        (6, "b", ""),
        (7, "c", "z"),
    ]


def test_command_goes_on_over_several_lines() -> None:
    assert commands("$ cat <<E\n> $ x\n>\n> E\n$ b\n> c\nx\n") == [
        (2, "cat <<E\n$ x\n\nE", ""),
        (6, "b\nc", "x"),
    ]


def test_output_before_any_command_is_refused() -> None:
    with pytest.raises(SnippetError, match=r"doc\.md:2: .*begins with a command"):
        commands("bus init\n")


# Comparing


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ("", "\n"),
        ("a", "a\n"),
        ("id ... stored", "id 0190-f stored"),
        ("first\n...\nlast", "first\n2\n3\nlast\n"),
        ("...", ""),
        ("a\nb", "a   \nb\n\n"),
        ("(a|b)*", "(a|b)*"),
    ],
)
def test_output_matches(expected: str, got: str) -> None:
    assert matches(expected, got)


@pytest.mark.parametrize(
    ("expected", "got"),
    [("", "a"), ("a", ""), ("a", "a\nb"), ("a...", "ba"), ("  a", "a"), ("a.c", "abc")],
)
def test_output_does_not_match(expected: str, got: str) -> None:
    assert not matches(expected, got)


# Running


def test_blocks_share_one_shell_and_one_folder(run: Run) -> None:
    run(
        """
        ```console
        $ mkdir inner && cd inner && word=hello
        ```

        ```sh
        for i in 1 2; do
          echo "$word $i" >> said
        done
        ```

        ```python
        import pathlib

        assert pathlib.Path.cwd().name == "inner"
        with open("said", "a") as file:
            file.write("python\\n")
        ```

        ```console
        $ cat said; cat <<END
        > $word
        > END
        hello 1
        ...
        python
        hello
        ```
        """
    )


@pytest.mark.parametrize(
    ("block", "command", "shown"),
    [
        ("```python\n# show.py\nprint('it\\'s')\n```", "python show.py", "it's"),
        ('```sh\n# show.sh\n#!/bin/sh\necho "$0"\n```', "sh ./show.sh", "./show.sh"),
    ],
)
def test_block_that_names_a_file_is_saved_and_not_run(
    block: str, command: str, shown: str, run: Run
) -> None:
    run(f"{block}\n\n```console\n$ test -x {command.split()[1]}\n$ ({command})\n{shown}\n```\n")


def test_bus_of_this_environment_is_on_the_path(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUS_DIR", "/elsewhere")
    run('```console\n$ command -v bus >/dev/null; echo "dir ${BUS_DIR-unset}"\ndir unset\n```\n')


def test_other_output_fails_with_both(failure: Failure) -> None:
    message = failure("```console\n$ echo one\none\n$ echo two\n2\n```\n")
    assert message == "doc.md:4: echo two\n--- expected\n2\n--- got\ntwo"


def test_unexpected_output_fails(failure: Failure) -> None:
    assert failure("```console\n$ echo one\n```\n").endswith("(nothing)\n--- got\none")


@pytest.mark.parametrize("language", ["console", "sh"])
def test_failing_command_fails_with_its_code(failure: Failure, language: str) -> None:
    prompt = "$ " if language == "console" else ""
    message = failure(f"```{language}\n{prompt}echo why >&2; (exit 3)\n```\n")
    assert message == "doc.md:2: echo why >&2; (exit 3)\n--- exit code 3, after\nwhy"


def test_failing_program_fails_with_the_line_of_the_document(failure: Failure) -> None:
    assert "line 5, in <module>" in failure("# Title\n\n```python\nx = 1\nassert x == 2\n```\n")


def test_syntax_error_fails_where_it_stands(failure: Failure) -> None:
    message = failure("```console\n$ echo ok\nok\n$ echo 'open\n$ echo never\nnever\n```\n")
    assert message.startswith("doc.md:4: echo 'open\n--- exit code")


def test_leaving_the_shell_fails(failure: Failure) -> None:
    assert "the shell ended here" in failure("```console\n$ exit 0\n```\n")


def test_hanging_command_fails(failure: Failure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snippets, "TIMEOUT_S", 0.5)
    assert failure("```console\n$ sleep 60\n```\n").startswith(
        "doc.md:2: sleep 60\n--- the 0.5 s of the document are over"
    )


def test_background_command_runs_beside_and_ends_with_the_document(
    run: Run, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    run(
        f"""
        ```console
        $ echo $BASHPID > {pid}; exec sleep 60 &
        $ until test -s {pid}; do sleep 0.01; done; kill -0 $(cat {pid})
        ```
        """
    )
    status = Path("/proc", pid.read_text().strip(), "status")
    wait_until(lambda: not status.exists() or "State:\tZ" in status.read_text())
