"""The agents of a torture run: a module for each role, and the process that plays it."""
