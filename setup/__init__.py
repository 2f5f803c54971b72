"""`bus setup`: changes to the configuration of coding agents' programs.

Nothing here changes a bus, but for the messages of a check.
"""
