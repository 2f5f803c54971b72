"""Settings: the shape of each part of a configuration, and the records that come of it.

Nothing here reads YAML.
"""
