"""The steps of a task: each changes its row and publishes its messages in one transaction.

Nothing here touches a work tree; `trees/` does.
"""
