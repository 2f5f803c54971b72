"""`python -m tests.fuzz`: tries bad input by machine, and prints one line of JSON."""

import argparse
import json
import random
import sys

from .engine import Outcome, fuzz, say, shares
from .targets import TARGETS


def main() -> int:
    """Tries every target, and returns 1 when one of them failed."""
    options = _options()
    say(f"seed {options.seed}; the same cases again: --cases {options.cases} --seed {options.seed}")
    chosen = [t for t in TARGETS if options.only in (None, t.name)]
    counts = shares(chosen, options.cases)
    outcomes: list[Outcome] = []
    for target in chosen:

        def progress(done: int, name: str = target.name) -> None:
            print(f"\r{name}: {done:,} of {counts[name]:,} ", end="", file=sys.stderr, flush=True)

        outcome = fuzz(target, counts[target.name], options.seed, progress)
        say(f"in {outcome.seconds:.1f} s" + (": FAILED" if outcome.failure else ""))
        if outcome.failure:
            say(outcome.failure)
        outcomes.append(outcome)
    print(json.dumps(_record(outcomes, options.seed)))
    return 1 if any(outcome.failure for outcome in outcomes) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="how many, in all")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="which ones")
    parser.add_argument("--only", choices=[t.name for t in TARGETS], help="of one target")
    return parser.parse_args()


def _record(outcomes: list[Outcome], seed: int) -> dict[str, object]:
    return {
        "seed": seed,
        "cases": sum(outcome.cases for outcome in outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 1),
        "failures": sum(outcome.failure is not None for outcome in outcomes),
        "cases_by_target": {outcome.target: outcome.cases for outcome in outcomes},
    }


if __name__ == "__main__":
    sys.exit(main())
