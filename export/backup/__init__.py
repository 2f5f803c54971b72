"""Backups: complete copies of a bus directory, checked after they are made."""
