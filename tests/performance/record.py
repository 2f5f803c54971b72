"""Counts what each hot operation costs, in units that do not depend on the machine.

    python tests/performance/record.py           # the counts of now, beside those on record
    python tests/performance/record.py --write   # put them on record, on purpose
    python tests/performance/record.py --json    # for the test

It runs in a process of its own, since it watches all that the process writes.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

import apsw
from counters import Counters, make_repeatable
from operations import OPERATIONS, filled

RECORD = Path(__file__).with_name("counts.json")

Counts = dict[str, dict[str, float]]


def counts() -> Counts:
    """The cost of every operation, for each time that it is done."""
    make_repeatable()
    counters = Counters()
    found = {}
    for name, operation in OPERATIONS.items():
        # A bus for each, so that none sees what those before it have left.
        with tempfile.TemporaryDirectory() as folder, filled(Path(folder, "bus")) as bus:
            found[name] = counters.of(bus, operation)
    return found


def show(found: Counts, recorded: Counts) -> None:
    """Print a table; what differs from the record has the recorded count behind it."""
    for name, costs in found.items():
        print(name)
        for unit, count in costs.items():
            before = recorded.get(name, {}).get(unit)
            was = "" if before == count else f"   (on record: {before})"
            print(f"    {unit:<14}{count:>12,.10g}{was}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the counts on record")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # else sets have another order each time
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})
    found = {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "sqlite": apsw.sqlite_lib_version(),
        "operations": counts(),
    }
    if given.json:
        print(json.dumps(found))
        return
    recorded = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {"operations": {}}
    show(found["operations"], recorded["operations"])  # type: ignore[arg-type]
    if given.write:
        RECORD.write_text(json.dumps(found, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
