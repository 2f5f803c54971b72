"""A verdict: what was to be proved, how often it was looked at, and what speaks against it."""

from __future__ import annotations

from dataclasses import dataclass, field

#: How many failures of a proof are told; the others are counted.
MAX_TOLD = 10


@dataclass(slots=True)
class Verdict:
    """The outcome of one proof.

    Attributes:
        name: what it is about, in a word or two.
        claim: what is true if it holds.
        checked: how many things were looked at.
        failed: how many of them break the claim.
        failures: the first of these, in words.
    """

    name: str
    claim: str
    checked: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.failed

    def fail(self, text: str) -> None:
        """Note something that breaks the claim."""
        self.failed += 1
        if len(self.failures) < MAX_TOLD:
            self.failures.append(text)

    def expect(self, true: bool, text: str) -> None:
        """Look at one thing; the text says what is wrong where it is not true."""
        self.checked += 1
        if not true:
            self.fail(text)
