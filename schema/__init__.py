"""The message, and its storage in SQLite. Imports no other room."""
