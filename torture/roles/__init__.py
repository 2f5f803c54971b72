"""The agents of a torture run: a module for each role, and the process that plays it.

Nothing here judges: each writes down what it is about to do and what it was told.
"""
