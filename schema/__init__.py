"""The message, the bus directory, and the storage of both. Nothing here imports another room."""
