"""Work that starts by itself: schedules, plugins, routes, pipelines, and their configuration.

Nothing here prints or listens on a port, and no command that runs often imports it.
"""
