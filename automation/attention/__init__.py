"""Findings about an automation, in one list, for all that tell its operator of them.

Nothing here changes anything, or needs a service that runs.
"""
