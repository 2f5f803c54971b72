"""The doors for programs that don't open the file: HTTP, streams, and what is built on them.

Each name is loaded when it is first used: a door needs only its own extra to be installed.
"""
