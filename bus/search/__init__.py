"""Finding messages by their words, in an index that is made from the log alone.

Nothing here writes into the database of the bus: the index is a file beside it.
"""
