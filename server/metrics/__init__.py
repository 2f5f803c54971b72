"""Metrics as Prometheus reads them: what the bus says of itself, and what this server did."""

from .counters import Metrics
from .endpoint import router
from .requests import Measured

__all__ = ["Measured", "Metrics", "router"]
