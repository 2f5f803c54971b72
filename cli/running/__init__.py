"""Commands that run until they are told to stop, and publishing in bulk.

Nothing here defines an option: `commands/` parses, and hands over values.
"""
