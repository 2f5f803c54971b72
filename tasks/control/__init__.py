"""The control plane of PushPals over the queues of tasks: what its clients ask for, without HTTP.

Nothing here parses a request, or is a second queue: jobs, claims and messages are the bus's.
"""
