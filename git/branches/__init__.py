"""Branches and commits of a repository, without a work tree: what tasks need of git.

Nothing here opens a bus, or knows tasks: names and commits come from the caller.
"""
