"""The view of all tasks: what everybody does, now or in the past, and what is to come of it.

Nothing here changes a task.
"""
