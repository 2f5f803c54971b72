"""Reading a damaged bus file page by page, and making a new one of what is in it.

Nothing here changes the damaged file, or believes what stands in it. SQLite's own recovery is an
extension that its Python packages leave out, so the few hundred bytes of format that it takes are
read here.
"""

from .comparison import Comparison
from .damage import Damage, damage_in, in_words, lost_messages, ranges, ranges_without
from .new_file import NewFile
from .pages import Pages
from .raw_file import RawFile
from .records import Damaged
from .recover import Recovered, TableFound, read_into
from .salvage import Salvage
from .tables import Parts, Table, parts_of_a_bus
from .wal import WriteAheadLog

__all__ = [
    "Comparison",
    "Damage",
    "Damaged",
    "NewFile",
    "Pages",
    "Parts",
    "RawFile",
    "Recovered",
    "Salvage",
    "Table",
    "TableFound",
    "WriteAheadLog",
    "damage_in",
    "in_words",
    "lost_messages",
    "parts_of_a_bus",
    "ranges",
    "read_into",
    "ranges_without",
]
