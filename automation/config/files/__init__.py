"""Files of a configuration as trees: read, grafted, filled with variables, and sealed.

Nothing here knows what a setting means.
"""
