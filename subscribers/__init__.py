"""Reading with acknowledgement: inboxes, parked messages, queues of work, conversations."""
