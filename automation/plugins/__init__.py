"""Plugins: their manifests, and the folders in which plugins may run.

Nothing here starts a process or knows a job.
"""
