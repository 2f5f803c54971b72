"""The proofs: the histories of the agents, compared with the log and the files.

Nothing here publishes, acknowledges or claims.
"""
