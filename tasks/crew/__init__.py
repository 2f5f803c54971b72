"""A crew: planner, workers and integrator as processes, kept running by one that tells of them.

Nothing here does the work of a role: each is a command.
"""
