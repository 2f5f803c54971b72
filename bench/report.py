"""Write docs/benchmarks from the records in bench/results: what was to be reached, and plots.

The same records give the same files: nothing else is asked, neither the clock nor the machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scale_plot import plot_scale

#: Where the records are, and where the report goes, in a clone.
RESULTS = Path(__file__).parent / "results"
REPORT = Path(__file__).parents[1] / "docs/benchmarks"

#: The keys of an answer: the middle, the ends of what is drawn as its spread, and its unit.
KINDS = {
    "median_us": ("least_us", "most_us", "µs"),
    "p50_ms": ("p50_ms", "p99_ms", "ms"),
    "median": ("least", "most", ""),
}

#: What a picture is drawn in: ours, and the others.
OURS, OTHERS, SPREAD = "#2563eb", "#9ca3af", "#1f2937"

#: How many times as long the longest bar may be as the shortest in a picture with a plain scale.
LOGARITHMIC_FROM = 50

#: How many rounds a record has, unless its section says otherwise.
ROUNDS = 7

#: The record whose answers are by the length of the log.
BY_LENGTH = "scale"

INTRODUCTION = """\
# Benchmarks

Written by `make bench-report` from the records in [bench/results](../../bench/results), which
have all figures, settings and commits. Contenders run in turn, 7 rounds in one run: trust the
ratios within a run, not its times. Benchmarks with peers were taken at least
twice, on two processors that others used too, and the run with less spread is kept. Bars are
medians; the line across is the spread of the rounds, for percentiles p50 to p99.

Peers run as their documents advise for speed, and as durable as the bus: SQLite with a write-ahead
log and synchronous=NORMAL; Redis by a Unix socket with hiredis (by TCP and without it on
2026-11-21), with nothing on disk unless a figure says otherwise; NATS with file storage.
"""


@dataclass(frozen=True)
class Answer:
    """What one contender measured."""

    name: str
    middle: float
    low: float
    high: float
    values: Mapping[str, float]


@dataclass(frozen=True)
class Group:
    """Answers that compare with each other.

    Attributes:
        title: what they are all about; empty where the question says it.
        unit: of all of them; empty for ratios and for what the question names.
    """

    title: str
    unit: str
    answers: Sequence[Answer]


def groups(results: Mapping[str, Any], title: str = "") -> Iterator[Group]:
    """Yield the answers of a record, those of one unit together."""
    found: dict[str, list[Answer]] = {}
    for name, value in results.items():
        answer = _answer(name, value)
        if answer is not None:
            unit, made = answer
            found.setdefault(unit, []).append(made)
    for unit, answers in found.items():
        yield Group(title, unit, answers)
    for name, value in results.items():
        if isinstance(value, dict) and _answer(name, value) is None:
            yield from groups(value, f"{title}, {name}" if title else name)


def _answer(name: str, value: object) -> tuple[str, Answer] | None:
    if not isinstance(value, dict):
        return None
    for middle, (low, high, unit) in KINDS.items():
        if middle in value:
            return unit, Answer(name, value[middle], value[low], value[high], value)
    return None


def number(value: float) -> str:
    """Return a number with as many digits as anyone needs."""
    for least, digits in ((100, 0), (10, 1), (0.1, 2)):
        if abs(value) >= least:
            return f"{value:,.{digits}f}"
    return f"{value:.3g}"


def spread(low: float, high: float) -> str:
    """Return the ends of a spread, as one word."""
    return f"{number(low)}\N{EN DASH}{number(high)}"


def measured(group: Group) -> str:
    """Return a list of the answers of a group: percentiles, or the median and its spread."""
    title = f"- {group.title}, " if group.title else "- "
    return "".join(
        f"{title}{answer.name}: {_figures(answer, group.unit)}\n" for answer in group.answers
    )


def _figures(answer: Answer, unit: str) -> str:
    if unit == "ms":
        keys = {key.removesuffix("_ms"): value for key, value in answer.values.items()}
        return f"{', '.join(f'{key} {number(value)}' for key, value in keys.items())} ms"
    return f"{number(answer.middle)} ({spread(answer.low, answer.high)}) {unit}".rstrip()


def targets(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what was to be reached, and what was: a line for what is asked of several cases."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, record in records.items():
        for target in record.get("targets", ()):
            case, colon, what = target["what"].rpartition(": ")
            key = (name, what, target["asked"])
            found.setdefault(key, []).append(f"{case}{colon and ' '}{_reached(target)}")
    if not found:
        return "No record says what it should reach.\n"
    return "".join(
        f"- [{name}](#{name}): {what}, {asked}: {'; '.join(reached)}\n"
        for (name, what, asked), reached in found.items()
    )


def _reached(target: Mapping[str, Any]) -> str:
    if target["median"] is None:
        return "not measured"
    median = number(target["median"])
    ends = spread(target["least"], target["most"])
    told = median if target["reached"] else f"**{median}**"
    return told if ends == spread(target["median"], target["median"]) else f"{told} ({ends})"


def environments(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the machines and versions of the records, each once, with the records taken there."""
    found: dict[str, list[str]] = {}
    for name, record in records.items():
        text = (
            f"{record['machine']}; Python {record['python']}; SQLite {record['sqlite']}"
            f" (of the peers: {record.get('sqlite_of_peers', 'not recorded')})"
        )
        found.setdefault(text, []).append(name)
    if len(found) == 1:
        return f"All of them: {next(iter(found))}.\n"
    return "".join(f"- {', '.join(names)}: {text}\n" for text, names in found.items())


def section(name: str, record: Mapping[str, Any], folder: Path) -> str:
    """Return what one record tells: a picture, and a list of what is not in it."""
    question = record["question"]
    told = f"{question[0].upper()}{question[1:]}."
    parts = [f"## {name}\n"]
    found = list(groups(record["results"]))
    drawn = draw(name, record, found, folder)
    if drawn:
        parts.append(f"![{told}]({name}.svg)\n")
    else:
        parts.append(f"{told}\n")
    if name != BY_LENGTH:
        told_by_list = "".join(measured(group) for group in found if group not in drawn)
        parts += [told_by_list] if told_by_list else []
    size = "" if record["size"] == 1 else f", at {record['size']:g} of the full size"
    rounds = "" if record["rounds"] == ROUNDS else f", {record['rounds']} rounds"
    parts.append(f"{record['taken_at'][:10]}{rounds}{size}.\n")
    return "\n".join(parts)


def draw(
    name: str, record: Mapping[str, Any], all_groups: Sequence[Group], folder: Path
) -> Sequence[Group]:
    """Draw the groups that can be compared, and return them."""
    if name == BY_LENGTH:
        return all_groups if plot_scale(record, folder) else []
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt

    found = [group for group in all_groups if len(group.answers) > 1]
    shown = [group for group in found if group.unit == found[0].unit]
    if not shown:
        return []
    heights = [0.9 + 0.28 * len(group.answers) for group in shown]
    figure, axes = plt.subplots(
        len(shown), figsize=(8, sum(heights)), height_ratios=heights, squeeze=False
    )
    what, _, unit = record["question"].partition(": ")
    for group, (axis,) in zip(shown, axes, strict=True):
        _bars(axis, group, group.unit or unit)
        axis.set_title(f"{what}: {group.title}" if group.title else what, loc="left", fontsize=10)
    figure.tight_layout()
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    figure.savefig(folder / f"{name}.png", dpi=120, metadata={"Software": None})
    plt.close(figure)
    return shown


def _bars(axis: Any, group: Group, unit: str) -> None:
    answers = sorted(group.answers, key=lambda answer: answer.middle, reverse=True)
    places = range(len(answers))
    middles = [answer.middle for answer in answers]
    spread = [
        [answer.middle - answer.low for answer in answers],
        [answer.high - answer.middle for answer in answers],
    ]
    ours = [answer.name.startswith(("ackbus", "bus ")) for answer in answers]
    axis.barh(places, middles, color=[OURS if own else OTHERS for own in ours], height=0.7)
    axis.errorbar(middles, places, xerr=spread, fmt="none", ecolor=SPREAD, capsize=2.5, lw=1)
    for place, answer in zip(places, answers, strict=True):
        at = max(answer.high, answer.middle)
        axis.annotate(number(answer.middle), (at, place), (5, -3), textcoords="offset points")
    axis.set_yticks(places, [answer.name for answer in answers])
    least, most = min(middles), max(answer.high for answer in answers)
    if least > 0 and most / least > LOGARITHMIC_FROM:
        axis.set_xscale("log")
        axis.set_xlim(least / 3, most * 3)
        unit += ", logarithmic"
    else:
        axis.set_xlim(0, most * 1.15 or 1)
    axis.set_xlabel(unit)
    axis.spines[["top", "right"]].set_visible(False)


def write(results: Path, folder: Path) -> None:
    """Write the report on all records of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    records = {
        path.stem: json.loads(path.read_text("utf-8")) for path in sorted(results.glob("*.json"))
    }
    sections = [section(name, record, folder) for name, record in records.items()]
    asked = "## What should be reached\n\nMedians and spreads; bold is [what was not](bounds.md).\n"
    parts = [INTRODUCTION, environments(records), asked, targets(records), *sections]
    (folder / "README.md").write_text("\n".join(parts), "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=REPORT)
    given = parser.parse_args()
    write(given.results, given.out)
