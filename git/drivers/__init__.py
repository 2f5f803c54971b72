"""The programs that git runs for bus.jsonl: the clean filter and the merge driver, and their setup.

Nothing here opens a bus: git starts them for each file and each commit.
"""
