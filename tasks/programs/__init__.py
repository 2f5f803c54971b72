"""Agent programs: how each is run without a person, its output as lines, how often it is tried.

Nothing here knows a job or a work tree.
"""
