"""`bus.jsonl` and its parts: written from the log, and imported into it."""
