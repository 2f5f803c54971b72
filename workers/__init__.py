"""Doing work: the worker host, and the contracts between it and what it runs.

Nothing here decides what becomes of a failed job: the policy of its queue does.
"""
