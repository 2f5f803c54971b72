"""Processes that workers start: fed, read, and ended with all that they started.

Nothing here knows a bus or a message.
"""
