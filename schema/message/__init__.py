"""The message: its form, its rules and its JSON. Nothing here opens a file."""
