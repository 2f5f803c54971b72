"""The records of tasks, and the classes that own their tables.

Nothing here publishes a message or runs git.
"""
