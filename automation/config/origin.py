"""The origin of a configuration: it was named, is this user's own, or was only found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """An origin says how far a configuration is this user's own act.

    Attributes:
        is_named: whether the user named its folder: then its owner is trusted as well.
        may_act: whether its variables are filled, and what it names is started and contacted.
    """

    is_named: bool
    may_act: bool


#: By an option, an argument or a variable.
NAMED = Origin(is_named=True, may_act=True)
#: In this user's own folder, or where the user's list says so.
OWN = Origin(is_named=False, may_act=True)
#: In the working directory: the files of a clone belong to whoever cloned it.
FOUND = Origin(is_named=False, may_act=False)
