"""Demands on a configuration: what must hold of it before it is taken, beside its form."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Demands:
    """Things that are refused, and not only told.

    Attributes:
        variables: a variable that is not defined.
        seal: tokens, scopes and webhooks that are not as they were sealed.
        plugins: a plugin that can't be loaded.
    """

    variables: bool = True
    seal: bool = True
    plugins: bool = False


#: For what acts by a configuration, and for a check.
TO_ACT = Demands()

#: For what only looks: it has no secrets, and shows what is there.
TO_LOOK = Demands(variables=False, seal=False)
