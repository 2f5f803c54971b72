"""The proofs: the histories of the agents, compared with the log and the files."""

from .checker import Proof, prove
from .verdict import Verdict

__all__ = ["Proof", "Verdict", "prove"]
