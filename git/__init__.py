"""All that runs git: `bus.jsonl` in it, and the guard of reserved files.

Git knows the messages without `seq`, by id, in order of time. Drivers stand between the two forms:
`clean` on the way in, `merge` between branches. `traffic` reads what commits have added.

Git starts a process for each file and each commit, so a name is loaded when it is asked for. That
only works while no module here has the same name as what it offers.
"""
