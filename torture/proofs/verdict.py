"""A verdict: a claim, the number of checks, and the failures."""

from __future__ import annotations

from dataclasses import dataclass, field

#: How many failures of a proof are told; the others are counted.
MAX_TOLD = 10


@dataclass(slots=True)
class Verdict:
    """The outcome of one proof.

    Attributes:
        name: its subject, in a word or two.
        claim: the claim.
        checked: the number of checks.
        failed: the number of failed checks.
        failures: the first failures, in words.
    """

    name: str
    claim: str
    checked: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    def fail(self, text: str) -> None:
        """Note a failed check."""
        self.failed += 1
        if len(self.failures) < MAX_TOLD:
            self.failures.append(text)

    def expect(self, true: bool, text: str) -> None:
        """Count one check, and note the text as a failure if the condition is false."""
        self.checked += 1
        if not true:
            self.fail(text)
