"""The routers of the page."""

from .files import router as files
from .identity import router as finding

#: `finding` first: its address would be that of a file.
ROUTERS = (finding, files)
