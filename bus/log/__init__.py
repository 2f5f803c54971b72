"""The log: appending, reading, its filters, and its beginning in the archive."""
