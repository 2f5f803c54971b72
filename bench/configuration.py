"""How long does a configuration of 2,000 routes take to load?

Beside it what reading alone takes: the parser of YAML with nothing done to what it finds.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from measure import Contender, at_most, compare, options, record, spreads, summary
from ruamel.yaml import YAML

from ackbus.automation.config.load import load

#: As many as a large configuration has.
ROUTES = 2000


def write(folder: Path, count: int) -> str:
    """Write a configuration with that many routes, and return their text."""
    lines = [
        f"  - from: plugin-{n % 50}\n    event_type: some.event.{n}\n    to: target-{n % 40}\n"
        for n in range(count)
    ]
    text = "routes:\n" + "".join(lines)
    (folder / "config.yaml").write_text("include: [routes.yaml]\n")
    (folder / "routes.yaml").write_text(text)
    return text


def loading(folder: Path, count: int) -> Contender:
    """Loading, until the records are checked and frozen."""

    def run() -> float:
        started = time.perf_counter()
        config = load(folder, environ={})
        assert len(config.routes) == count
        return time.perf_counter() - started

    return run


def parsing(text: str) -> Contender:
    """The parser alone."""

    def run() -> float:
        started = time.perf_counter()
        for _ in YAML(typ="safe", pure=True).parse(text):
            pass
        return time.perf_counter() - started

    return run


def main() -> None:
    """Ask, and write the record."""
    settings = options(__doc__ or "")
    count = settings.scaled(ROUTES)
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as scratch:
        folder = Path(scratch)
        text = write(folder, count)
        contenders = {
            "load": loading(folder, count),
            "parse the YAML alone": parsing(text),
        }
        times = compare(contenders, settings.rounds)
    targets = [at_most(f"{count} routes, load", 2, summary(times["load"]), "s")]
    record(f"a configuration of {count} routes", spreads(times), settings, targets=targets)


if __name__ == "__main__":
    main()
