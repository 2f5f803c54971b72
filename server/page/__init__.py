"""The page for people: static files that the server sends, which use the API as others do."""

from .files import router as files
from .identity import is_served_at
from .identity import router as finding

#: `finding` first: its address would be that of a file.
ROUTERS = (finding, files)

__all__ = ["ROUTERS", "is_served_at"]
