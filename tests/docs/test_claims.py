"""The claims of documents: each figure is on record, each error that they quote is one of ours."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from .test_documents import ROOT

README = (ROOT / "README.md").read_text("utf-8")
COMPARISON = (ROOT / "docs/comparison.md").read_text("utf-8")
FAQ = (ROOT / "docs/faq.md").read_text("utf-8")

#: The rows of the table in the README: what, the record, the answer of ackbus, the other's name and
#: answer. A path of names leads to an answer in a record.
FIGURES = (
    (
        "publish a message of 300 bytes, with a commit of its own",
        "publish",
        ("300 bytes", "ackbus"),
        "Redis, nothing on disk",
        ("300 bytes", "redis"),
    ),
    ("the same", "publish", ("300 bytes", "ackbus"), "litequeue", ("300 bytes", "litequeue")),
    (
        "a job that does nothing: claim, run, complete",
        "work",
        ("ackbus worker",),
        "litequeue",
        ("litequeue",),
    ),
    (
        "the same",
        "work",
        ("ackbus worker",),
        "a Redis stream, read 32 at a time",
        ("redis streams, 32 at a time",),
    ),
    (
        "from publish to a handler in another process, p50",
        "latency",
        ("ackbus inbox",),
        "a Redis stream",
        ("redis",),
    ),
    (
        "a message of 32 processes that publish at once",
        "writers",
        ("32 writers",),
        "one process",
        ("one writer",),
    ),
    (
        "publish into a log of 10 million messages",
        "scale",
        ("publish", "10000000"),
        "of 10 thousand",
        ("publish", "10000"),
    ),
)


def record(name: str) -> dict[str, Any]:
    found = json.loads((ROOT / f"bench/results/{name}.json").read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def microseconds(results: dict[str, Any], path: tuple[str, ...]) -> str:
    """The median of an answer, or its p50."""
    answer: Any = results
    for name in path:
        answer = answer[name]
    value = answer["median_us"] if "median_us" in answer else answer["p50_ms"] * 1000
    return f"{value:.0f} µs"


def rows() -> Iterator[str]:
    yield "| what | ackbus | compared with | record |"
    yield "|---|---|---|---|"
    for what, name, ours, other, theirs in FIGURES:
        results = record(name)["results"]
        link = f"[{name}](docs/benchmarks/README.md#{name})"
        compared = f"{other}: {microseconds(results, theirs)}"
        yield f"| {what} | {microseconds(results, ours)} | {compared} | {link} |"


def test_table_of_figures_is_that_of_the_records() -> None:
    """A record that is made anew changes the table: paste what this shows."""
    assert "\n".join(rows()) in README, "\n".join(rows())
    for name in {name for _, name, *_ in FIGURES}:
        taken = record(name)
        assert taken["taken_at"][:10] in README, name
        assert taken["commit"] in README, name


@pytest.mark.parametrize("text", [README, COMPARISON], ids=["README", "comparison"])
def test_every_link_to_a_benchmark_names_a_record(text: str) -> None:
    named = set(re.findall(r"benchmarks/README\.md#([\w-]+)", text))
    assert named
    assert {name for name in named if not (ROOT / f"bench/results/{name}.json").is_file()} == set()


def medians(results: dict[str, Any]) -> Iterator[str]:
    """The median, in microseconds, of every answer in a record."""
    if "median_us" in results or "p50_ms" in results:
        yield microseconds(results, ())
        return
    for answer in results.values():
        if isinstance(answer, dict):
            yield from medians(answer)


@pytest.mark.parametrize("text", [COMPARISON, FAQ], ids=["comparison", "faq"])
def test_every_figure_of_a_page_is_on_record(text: str) -> None:
    """Each figure stands in a sentence that ends with the link to its record."""
    sentences = re.findall(r"((?:(?!benchmarks/).)*?)\(benchmarks/README\.md#(\w+)\)", text, re.S)
    claimed = [(figure, name) for part, name in sentences for figure in re.findall(r"\d+ µs", part)]
    assert len(claimed) == len(re.findall(r"\d+ µs", text)) > 1
    wrong = [each for each in claimed if each[0] not in set(medians(record(each[1])["results"]))]
    assert wrong == []


#: A text of an error in bold: one that an example can't bring about.
QUOTED = re.compile(r"\*\*`([^`]+)`\*\*")


def sources() -> str:
    """The sources of the package, with texts that go on over several lines in one piece."""
    apart = ("tests", "bench", "docs", "examples", ".venv", "build")
    paths = [
        path for path in ROOT.glob("*/**/*.py") if path.relative_to(ROOT).parts[0] not in apart
    ]
    return "\n".join(re.sub(r'"\s*\n\s*f?"', "", path.read_text("utf-8")) for path in paths)


def test_every_quoted_error_is_one_of_ours() -> None:
    """The output of examples is compared where they run; these texts must stand in the sources."""
    page = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
    quoted = QUOTED.findall(page)
    assert len(quoted) > 9
    ours = sources()
    assert [text for text in quoted if text not in ours] == []
