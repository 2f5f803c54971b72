"""Live streams of messages: a replay from a cursor, then new messages, without a gap between.

Nothing here acknowledges: the cursor is the client's own.
"""
