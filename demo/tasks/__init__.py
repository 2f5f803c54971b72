"""The demo of tasks: agents on branches of a real repository, until all has landed.

Nothing here prints: it tells what happens, and `cli/` shows it.
"""
