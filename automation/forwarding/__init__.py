"""Forwarding: messages posted to a URL as signed CloudEvents, each until it is taken.

Nothing here knows the configuration of the automation, or runs in its service.
"""
