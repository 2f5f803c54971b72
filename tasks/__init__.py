"""Tasks: agents on git branches, from a request to a merged and checked commit.

Everything that runs git is in `git/`; nothing here parses a command line or speaks HTTP.
"""
