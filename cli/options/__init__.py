"""The options that several commands share, and the values made of them.

Nothing here is a command.
"""
