"""The clients of the server: their tokens, their rights, and where they may come from.

Nothing here keeps a token as it was given out: only its hash is stored.
"""
