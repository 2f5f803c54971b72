"""The doors for programs that don't open the file: HTTP, streams, and what is built on them.

Nothing here reads or writes the bus but by its classes; only the tokens are a table of this room.
The MCP door over stdio loads nothing of HTTP: each extra is installed by itself.
"""
