"""The log: appending, reading, its filters, and its beginning in the archive.

Nothing here changes a message once it is stored.
"""
