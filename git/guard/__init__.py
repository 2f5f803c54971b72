"""The guard's hooks in a repository: a folder of their own, named by `core.hooksPath`.

Nothing here opens a bus, or writes where hooks of others lie: these run at their own path.
"""
