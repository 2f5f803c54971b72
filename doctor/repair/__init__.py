"""Bringing a damaged bus back from what is intact: the file, the export, the archive, a backup.

Nothing here deletes a damaged file: it is kept beside the new one.
"""
