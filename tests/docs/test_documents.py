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


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_shows_what_happens(name: str, bus_env: dict[str, str]) -> None:
    try:
        run_document((ROOT / name).read_text("utf-8"), name, bus_env)
    except SnippetError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
