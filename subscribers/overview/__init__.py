"""Views across inboxes and queues: traces, notices, and what retention must keep."""
