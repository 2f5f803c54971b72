"""Branches of a repository, and work trees for them: what tasks need of git.

Nothing here opens a bus, or knows tasks: names and commits come from the caller.
"""
