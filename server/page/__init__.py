"""The page for people: static files that the server sends, which use the API as others do.

Nothing here reads messages.
"""
