"""Completion of hints in messages: the commands in them get the --dir or --user of the bus.

The library raises errors without knowledge of the command line, so a hint is completed where it is
printed. A bus that BUS_DIR or the working directory names is found by the next command as well.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The environment variable that names the agent.
AGENT_VARIABLE = "BUS_AGENT"


def completed(text: str, bus_option: Sequence[str]) -> str:
    """Return a text with an option added to each command that it quotes, but not to --help.

    Args:
        text: the text.
        bus_option: the words of the option that named the bus; empty where none did.
    """
    if not bus_option or "'bus " not in text:
        return text
    try:
        import re
        import shlex
    except OSError:  # no descriptor is left to load them with, and the text may say so
        return text

    option = shlex.join(bus_option)
    return re.sub(r"'(bus [a-z][^']*)(?<!--help)'", lambda hint: f"'{hint[1]} {option}'", text)
