"""Files of a configuration as trees: read, cached, grafted, filled with variables, and sealed.

Nothing here knows what a setting means.
"""
