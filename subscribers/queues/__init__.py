"""Queues: filling them, claiming from them, and what people do with them.

Nothing here does the work: a claim is handed to the caller.
"""
