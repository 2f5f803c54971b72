"""`bus setup`: changes to the configuration of coding agents' programs."""

from __future__ import annotations

from .checking import check
from .installation import Installation
from .programs import PROGRAMS

__all__ = ["PROGRAMS", "Installation", "check"]
