"""Finding messages by their words, in an index that the log alone makes."""
