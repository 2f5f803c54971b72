"""Reading with acknowledgement: inboxes, parked messages, queues of work, conversations.

Nothing here starts a process: `workers/` does the work.
"""
