"""Bringing a damaged bus back from what is intact: the file, the export, the archive, a backup."""

from ...schema import Mended
from .differences import Differences, differences
from .repair import repair_bus

__all__ = ["Differences", "Mended", "differences", "repair_bus"]
