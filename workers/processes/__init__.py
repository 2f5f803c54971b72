"""Processes that workers start: fed, read, and ended with all that they started."""
