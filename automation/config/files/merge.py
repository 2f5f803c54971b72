"""Grafting: how files of a configuration become one. Maps merge, lists append, the rest replaces.

Older forms of Ductile's pages are brought into the present one before, file by file.
"""

from __future__ import annotations

from ..faults import Fault
from .yaml_tree import Items, Map, is_null

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .yaml_tree import Spot, Tree


def graft(base: Map, over: Map, faults: list[Fault], path: str = "") -> None:
    """Graft a later file's settings onto what the earlier ones said, in place.

    Args:
        base: the earlier settings.
        over: the later ones, which win.
        faults: gets those of settings that can't be grafted.
        path: the path that both have.
    """
    for key, value in over.items():
        inner = f"{path}.{key}" if path else key
        earlier, spot = base.get(key), over.at[key]
        if isinstance(earlier, Map | Items) and is_null(value):
            continue
        if isinstance(earlier, Map) and isinstance(value, Map):
            merged = _copy(earlier)
            graft(merged, value, faults, inner)
            base[key] = merged
        elif isinstance(earlier, Items) and isinstance(value, Items):
            base[key] = _appended(earlier, value)
        elif earlier is None or is_null(earlier) or _kind(earlier) == _kind(value):
            base[key], base.at[key] = value, spot
        else:
            first = "{}:{}".format(*base.at[key])
            told = f"this is {_kind(value)}, but {_kind(earlier)} at {first}; write it in one form"
            faults.append(Fault(*spot, inner, told))


def modernise(tree: Map, warnings: list[Fault]) -> Map:
    """Return a file's settings in the forms of today.

    `log_level` at the top belongs to `service`; `database` is `state`, whose path may stand under
    `database`; `webhooks` may be a list of endpoints.
    """
    new = _copy(tree)
    if "log_level" in new:
        _move(new, "log_level", "service", "log_level", warnings)
    if "database" in new and "state" not in new:
        new["state"], new.at["state"] = new.pop("database"), new.at["database"]
    state = new.get("state")
    inner = state.get("database") if isinstance(state, Map) else None
    if isinstance(state, Map) and isinstance(inner, Map):
        plain = _copy(state)
        del plain["database"]
        graft(plain, inner, [])
        new["state"] = plain
    if isinstance(endpoints := new.get("webhooks"), Items):
        new["webhooks"] = _map_of("endpoints", endpoints, new.at["webhooks"])
    return new


def _move(tree: Map, key: str, section: str, to: str, warnings: list[Fault]) -> None:
    spot = tree.at[key]
    moved = _map_of(to, tree.pop(key), spot)
    warnings.append(Fault(*spot, key, f"this is an old place; write it as {section}.{to}"))
    own = tree.get(section)
    if isinstance(own, Map):
        graft(moved, own, [])
    tree[section] = moved
    tree.at.setdefault(section, spot)


def _map_of(key: str, value: Tree, spot: Spot) -> Map:
    made = Map({key: value})
    made.at[key] = spot
    return made


def _copy(tree: Map) -> Map:
    copied = Map(tree)
    copied.at = dict(tree.at)
    return copied


def _appended(earlier: Items, later: Items) -> Items:
    items = Items([*earlier, *later])
    items.at = [*earlier.at, *later.at]
    return items


def _kind(tree: Tree) -> str:
    return "a map" if isinstance(tree, Map) else "a list" if isinstance(tree, Items) else "a value"
