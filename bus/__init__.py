"""The log and what belongs to it, by one door, `LocalBus`: archive, search, trust, agents, leases.

Nothing here delivers a message or hands out work: `subscribers/` reads the log for that.
"""
