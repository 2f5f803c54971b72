"""`bus top`: a live view of a bus, drawn again as it changes."""

from __future__ import annotations

from .running import show_once, watch

__all__ = ["show_once", "watch"]
