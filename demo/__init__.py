"""`bus demo`: a small team of agents examines a tree of files, and proves that it lost none."""

from __future__ import annotations


def run_demo(path: str, *, directory: str | None, json: bool) -> int:
    """Run the demo to its end; what it made stays on disk.

    Args:
        path: the directory whose text files are examined.
        directory: the directory for the bus; None takes a fresh temporary one.
        json: print the results as JSON, one object a line, instead of tables.

    Returns:
        The exit code: 0, 1 when the proof failed, 4 when there was nothing to examine, 130 when
        it was interrupted.

    Raises:
        InvalidInput: `path` is no directory that can be read.
        Refused: `directory` holds a bus already.
    """
    from .run import run  # the agents' processes import this package, and need none of that

    return run(path, directory=directory, json=json)


__all__ = ["run_demo"]
