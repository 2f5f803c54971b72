"""The programs that git runs for bus.jsonl: the clean filter, the merge driver, and their setup."""
