"""The protocol of the agents: the length of leases, and the policy of their queue."""

from __future__ import annotations

#: How long leases and claims last, in seconds: those of killed agents must end soon.
LEASE_S = 2.0

#: How many attempts a job has. They end by kill -9 all the time, and none may be given up for it.
MAX_ATTEMPTS = 1_000_000

#: The base of the pause before the next attempt, in seconds.
BACKOFF_S = 0.05

#: How often every agent's heart beats, in seconds: far more often than in earnest.
BEAT_EVERY_S = 1.0
