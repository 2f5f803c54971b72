"""Everything that runs git: `bus.jsonl` in it, and the hooks that guard reserved files.

Nothing here opens a bus. Git starts a process for each file and each commit, so these modules load
little.

Git knows the messages without `seq`, by id, in order of time. Drivers stand between the two forms:
`clean` on the way in, `merge` between branches. `history` reads what commits have added.
"""
