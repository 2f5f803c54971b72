"""Webhooks in: signatures, deliveries, and the jobs that they become; nothing of HTTP.

Nothing here reads or writes the network.
"""
