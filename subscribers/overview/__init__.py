"""Views across inboxes and queues: traces, notices, agents, and what retention must keep.

Nothing here changes a job.
"""
