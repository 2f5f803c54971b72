"""Bringing a damaged bus back from what is intact: the file, the export, the archive, a backup."""
