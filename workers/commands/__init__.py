"""Work by commands: the raw and the json contract, and what a command is told.

Nothing here claims a job or ends a claim: a contract returns the outcome.
"""
