"""Work trees for tasks: made, mended, looked at, rescued and removed.

Nothing here opens a bus, or knows more of a task than its name.
"""
