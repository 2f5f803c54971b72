"""The roles as processes: planner, workers and integrator, and the crew that keeps them running.

Nothing here changes a table by itself, and nothing here prints.
"""
