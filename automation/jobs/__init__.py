"""Jobs of plugins: submitted, dispatched, run, ended, and what is kept of them.

Nothing here decides when a job is due or which job follows it.
"""
