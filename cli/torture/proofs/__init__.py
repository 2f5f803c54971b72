"""The proofs: what the agents were told, held against the log and the files."""

from .checker import Proof, prove
from .verdict import Verdict

__all__ = ["Proof", "Verdict", "prove"]
