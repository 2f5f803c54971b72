"""The search for the bus of a program that names none: the nearest upwards, as git finds `.git`.

Any user can put a bus into a folder that all may write, above another user's project. So a found
bus is used only if this user or root made it, or if this user's list names it. A clone or an
archive can bring a link, or a `.git` that is a file, which leads to another bus of this user: that
bus is used only if it stays in the project, or if the list names it. A bus that --dir or BUS_DIR
names needs no such check: the user has chosen it.
"""

from __future__ import annotations

import os

from ..errors import BusNotFound
from ..system_errors import read_only, unreachable
from .folder import Folder, Obstructed
from .layout import (
    BUS_DIR_VARIABLE,
    BUS_DIRECTORY,
    Layout,
    expand_home,
    own_ids,
    refuse_links,
    refuse_network_filesystem,
    remains_of_bus,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: How much of a file of git's that names a directory is read, in bytes: far more than a path has.
_MAX_LINK_BYTES = 64 * 1024


def find_bus(start: str | os.PathLike[str] | None = None) -> str:
    """Return the bus directory that a program started in `start` should use.

    The environment variable `BUS_DIR` wins; else the nearest `.worker-state/` with a bus in it,
    from `start` (default: the working directory) upwards, as git finds `.git`. A linked work tree
    of git without a bus uses the bus of the main work tree, with which it shares all else.

    Raises:
        BusNotFound: there is none.
        BusUnusable: the nearest belongs to another user, or a link out of the project led to it,
            and no list of this user's names it.
    """
    named = os.environ.get(BUS_DIR_VARIABLE)
    if named:
        return os.path.abspath(expand_home(named))
    origin = os.path.abspath(os.fspath(start) if start is not None else os.getcwd())
    for folder, links in _searched_from(origin):
        directory = os.path.join(folder, BUS_DIRECTORY)
        if os.path.exists(os.path.join(directory, "bus.db")):
            refuse_foreign(directory, links)
            refuse_led_away(directory, links)
            return directory
    for folder, links in _searched_from(origin):
        directory = os.path.join(folder, BUS_DIRECTORY)
        if remains := remains_of_bus(Layout(directory)):
            refuse_foreign(directory, links)
            refuse_led_away(directory, links)
            raise BusNotFound(remains)
    raise BusNotFound(f"no bus in {origin} or above it; make one with 'bus init'")


def refuse_foreign(directory: str, links: Iterable[str] = ()) -> None:
    """Raise where another user owns a found bus directory, or a link to it.

    Args:
        directory: the bus directory; its file need not be there.
        links: files of git's that led to it.

    Raises:
        BusUnusable: it, its file, or a link to it belongs to neither this user nor root, and no
            list names the directory.
    """
    owner = _other_owner(
        (*links, directory, os.path.join(directory, ""), Layout(directory).database)
    )
    if owner is None:
        return
    from .trust import is_safe, refusal  # hardly anybody's bus is another's

    if not is_safe(directory):
        raise refusal(directory, owner)


def refuse_led_away(directory: str, links: Sequence[str] = ()) -> None:
    """Raise where what may have come with a clone, or in an archive, led to a found bus elsewhere.

    Args:
        directory: the bus directory; its file need not be there.
        links: files of git's that led to it, as `_searched_from` gives them.

    Raises:
        BusUnusable: it is a link out of the project, or a `.git` led to it that the repository does
            not know, and no list names the directory.
    """
    link = directory if _leads_out(directory) else _unknown_tree(links)
    if link is None:
        return
    from .trust import is_safe, refusal_of_link  # hardly any bus is behind such a link

    if not is_safe(directory):
        raise refusal_of_link(directory, link)


def _leads_out(directory: str) -> bool:
    """Whether a bus directory is a link out of the project that it is in."""
    if not os.path.islink(directory):
        return False
    top = os.path.realpath(os.path.dirname(directory))
    root = top
    while not os.path.lexists(os.path.join(root, ".git")) and root != os.path.dirname(root):
        root = os.path.dirname(root)
    if not os.path.lexists(os.path.join(root, ".git")):
        root = top  # in no repository: the folder itself
    return not os.path.realpath(directory).startswith(os.path.join(root, ""))


def _unknown_tree(links: Sequence[str]) -> str | None:
    """Return the first `.git` of a linked work tree that the repository does not know; or None.

    The repository keeps a folder of its own for each tree, and in that the place of the tree.
    """
    for link, pointer in zip(links[::2], links[1::2], strict=True):
        admin = os.path.dirname(pointer)
        try:
            common = os.path.realpath(os.path.join(admin, _read(admin, "commondir")))
            own_link = os.path.realpath(os.path.join(admin, _read(admin, "gitdir")))
        except (OSError, ValueError):
            return link
        place = os.path.dirname(os.path.realpath(admin))
        if place != os.path.join(common, "worktrees") or own_link != os.path.realpath(link):
            return link
    return None


def _other_owner(paths: Iterable[str]) -> int | None:
    """Return the owner of the first path that is not this user's, or None; follows no links."""
    ours = own_ids()
    for path in paths:
        try:
            owner = os.lstat(path).st_uid
        except OSError:  # nothing is there; what this user may not see is said when it is opened
            continue
        if owner not in ours:
            return owner
    return None


def _searched_from(folder: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield an absolute folder and its parents; after a linked work tree comes its main work tree.

    The parents of both come last: otherwise a bus there would win over the bus that both share.
    With each folder come the files of git that led to it.
    """
    searched: set[str] = set()  # the root is above itself, and links may lead in a circle
    ahead: list[tuple[str, tuple[str, ...]]] = [(folder, ())]
    while ahead:
        folder, links = ahead.pop()
        if folder not in searched:
            searched.add(folder)
            yield folder, links
            ahead.append((os.path.dirname(folder), links))
            main = _main_work_tree(folder)
            if main is not None:
                ahead.append((main[0], (*links, *main[1])))


def _main_work_tree(folder: str) -> tuple[str, tuple[str, str]] | None:
    """Return the folder with the `.git` that a linked work tree shares, and which files say so.

    A linked work tree has a file `.git`, which names a folder in the shared `.git`; that folder has
    a file `commondir`, which leads back. A submodule has a file `.git` too, but no `commondir`.
    None where the folder is no linked work tree.
    """
    link = os.path.join(folder, ".git")
    if not os.path.isfile(link):
        return None
    try:
        git_dir = os.path.join(folder, _read(folder, ".git")[len("gitdir: ") :])
        common = os.path.normpath(os.path.join(git_dir, _read(git_dir, "commondir")))
    except (OSError, ValueError):  # damaged, or a NUL in a path: it leads nowhere
        return None
    return os.path.dirname(common), (link, os.path.join(git_dir, "commondir"))


def _read(directory: str, name: str) -> str:
    """Return the path in a file of git's. Anyone may have put a pipe, or a huge file, there."""
    with Folder(directory).read(name) as file:
        return os.fsdecode(file.read(_MAX_LINK_BYTES).strip())


# The checks of a directory before its bus is opened, which look at no content of its file.


def require_bus(layout: Layout) -> None:
    """Raise unless there is a bus in a directory, and it can be opened.

    Raises:
        BusNotFound: there is none.
        BusUnusable: it can't be opened.
    """
    try:
        layout.files.check("bus.db")
        status = layout.files.look("bus.db")
    except Obstructed:
        raise
    except OSError as error:
        raise unreachable(layout.directory, error) from error
    if status is None or status.st_size == 0:
        raise _no_bus(layout)
    refuse_place(layout)


def refuse_place(layout: Layout) -> None:
    """Raise if no bus can be opened in the directory, before its file is read.

    Raises:
        BusUnusable: it may not be written, has a symbolic link, or is on a network filesystem.
    """
    closed = read_only(layout.directory)
    if closed is not None:
        raise closed
    refuse_links(layout.directory)
    refuse_network_filesystem(layout.directory)


def _no_bus(layout: Layout) -> BusNotFound:
    """Return the error for a directory without a bus; often its parent was named."""
    inside = os.path.join(layout.directory, BUS_DIRECTORY)
    if os.path.exists(Layout(inside).database):
        return BusNotFound(f"no bus in {layout.directory}; did you mean {inside}?")
    remains = remains_of_bus(layout)
    return BusNotFound(remains or f"no bus in {layout.directory}; make one with 'bus init'")
