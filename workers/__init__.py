"""Doing work: the worker host, and the contracts between it and what it runs."""
