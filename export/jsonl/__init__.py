"""`bus.jsonl` and its parts: written from the log, and imported into it.

The log is the truth: nothing here changes a message in it, whatever a line says.
"""
