"""Every command and program that the documents show does what they show."""

from pathlib import Path

import pytest

from .snippets import SnippetError, run_document

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)


def test_the_readme_can_be_followed_with_tail(bus_env: dict[str, str]) -> None:
    """Issue 34: its minute as it stands, with `tail -F` from the first command on."""
    text = (ROOT / "README.md").read_text("utf-8")
    _, _, minute = text.partition("## A minute with the command\n")
    minute, _, _ = minute.partition("The same in Python:")
    after_init = "$ bus publish task_assign"
    followed = "$ tail -F .worker-state/bus.jsonl >../followed 2>../tail-says &\n"
    assert minute.count(after_init) == 1
    looked_at = """
```console
$ until [ "$(wc -l <../followed)" = 3 ]; do sleep 0.05; done
$ cmp ../followed .worker-state/bus.jsonl
$ bus replay --json | cmp - ../followed
$ cut -c -8 ../followed
{"seq":1
{"seq":2
{"seq":3
$ bus doctor | grep export:
ok    export: process ...bus run --type shout.request... exports, 0 behind
```
"""
    minute = minute.replace(after_init, followed + after_init) + looked_at
    try:
        run_document(minute, "README.md", bus_env)
    except SnippetError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_shows_what_happens(name: str, bus_env: dict[str, str]) -> None:
    try:
        run_document((ROOT / name).read_text("utf-8"), name, bus_env)
    except SnippetError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
