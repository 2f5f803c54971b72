"""A folder of configuration: read, verified, merged, checked as a whole, and frozen.

Nothing here opens a bus or runs a plugin.
"""
