"""Work trees of tasks: made by spawn, looked at when they are done, and cleaned.

Nothing here runs git by itself, or changes the state of a task but by the steps.
"""
