"""Draws what `scale.py` found: cost against the length of the log, one line for each act.

    python bench/scale_plot.py bench/results/scale.json docs/benchmarks

makes `scale.png` and `scale.svg`. Both axes are logarithmic: what costs the same is level, what
costs ten times as much for ten times the messages rises by one decade for each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Inches.
SIZE = (10, 6)

#: The colours that people who can't tell red from green can tell apart, and how lines differ more.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#444444")
LINES = ("-", "--", ":")


def plot_scale(record: Mapping[str, Any], folder: Path, name: str = "scale") -> list[Path]:
    """Draw the record of `scale.py`, and return the files: a PNG and an SVG.

    Args:
        record: what `scale.py` wrote.
        folder: where to; made when it is missing.
        name: of the files, without an ending.
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = name  # the same record gives the same file
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=SIZE, layout="constrained")
    for number, (act, by_size) in enumerate(_dearest_first(record["results"])):
        _line(axes, act, by_size, COLOURS[number % len(COLOURS)], LINES[number // len(COLOURS)])
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="messages in the log",
        ylabel="microseconds (median of rounds; bars: least and most)",
        title=f"What each act costs, by the length of the log ({record['commit']})",
    )
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}{ending}" for ending in (".png", ".svg")]
    for file in files:
        undated = {"Date": None} if file.suffix == ".svg" else {}
        figure.savefig(file, dpi=120, metadata=undated)
    pyplot.close(figure)
    return files


def _dearest_first(acts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the acts in the order of their lines, so that the legend stands beside them."""
    return sorted(
        acts.items(), key=lambda item: -max(cost["median_us"] for cost in item[1].values())
    )


def _line(axes: Any, act: str, by_size: Mapping[str, Any], colour: str, style: str) -> None:
    """Draw one act: a line with a bar from the least to the most at each size."""
    sizes = sorted(by_size, key=int)
    medians = [by_size[size]["median_us"] for size in sizes]
    below = [by_size[size]["median_us"] - by_size[size]["least_us"] for size in sizes]
    above = [by_size[size]["most_us"] - by_size[size]["median_us"] for size in sizes]
    axes.errorbar(
        [int(size) for size in sizes],
        medians,
        yerr=[below, above],
        label=act,
        color=colour,
        linestyle=style,
        marker="o",
        markersize=4,
        capsize=3,
    )


def main() -> None:
    """Draw a record that is in a file."""
    source, folder = map(Path, sys.argv[1:])
    for file in plot_scale(json.loads(source.read_text("utf-8")), folder):
        print(file)


if __name__ == "__main__":
    main()
