"""The proofs: the histories of the agents, compared with the log and the files."""
