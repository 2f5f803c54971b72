"""Metrics for Prometheus: the state of the bus, and the counters of this server."""

from .counters import Metrics
from .endpoint import router
from .requests import Measured

__all__ = ["Measured", "Metrics", "router"]
