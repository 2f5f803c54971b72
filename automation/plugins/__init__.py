"""Plugins: their manifests, the folders that may run, what they are told and what they answer.

Nothing here starts a process or knows a job.
"""
