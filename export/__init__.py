"""The log in other forms: `bus.jsonl`, segments of the archive, backups, pictures.

Nothing here runs git, or knows inboxes and queues.
"""
