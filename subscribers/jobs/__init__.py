"""Jobs and the claims on them: states, policies, outcomes, replies.

Nothing here begins a transaction: its calls are steps of those that `queues/` begins.
"""
