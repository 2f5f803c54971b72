"""`bus top`: a bus as it is just now, drawn again as it changes."""

from __future__ import annotations

from .running import show_once, watch

__all__ = ["show_once", "watch"]
