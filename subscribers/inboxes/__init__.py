"""One agent's unread mail: polling, acknowledging, failed deliveries, and delivery loops.

Nothing here shares work among agents: queues do.
"""
