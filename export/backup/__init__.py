"""Backups: complete copies of a bus directory, checked after they are made.

Nothing here changes the bus that is copied.
"""
