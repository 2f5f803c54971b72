"""Metrics for Prometheus: the state of the bus, and the counters of this server.

Nothing here changes the bus.
"""
