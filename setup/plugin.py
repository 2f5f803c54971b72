"""The plugin of opencode, which has no command hooks: a file that is entirely ours."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from ..schema.errors import Refused

#: The file as it is, but for the command.
_TEMPLATE = Path(__file__).with_name("opencode.js")

#: The mark of a file of ours, of any version.
_FIRST_LINE = "// Hands mail of the message bus (ackbus) over"

#: The line of a plugin that wakes an idle agent.
WAKES = "const isWoken = true"

_COMMAND = re.compile(r"^const \[bus, \.\.\.options\] = (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class PluginFile:
    """A file that is entirely ours; a foreign one is refused."""

    text: str

    @classmethod
    def running(cls, command: list[str], *, wakes: bool) -> PluginFile:
        """Return the plugin that runs `bus` with these options, and may wake an idle agent."""
        words = json.dumps(command, ensure_ascii=False)
        text = _TEMPLATE.read_text(encoding="utf-8").rstrip()
        return cls(text.replace("IS_WOKEN", json.dumps(wakes)).replace("COMMAND", words))

    def put(self, text: str) -> str:
        """Return our text."""
        if text and not _is_ours(text):
            raise Refused("it is not a plugin of ackbus; rename it, and try again")
        return text if text.rstrip() == self.text else self.text + text[len(text.rstrip()) :]

    def take(self, text: str) -> str:
        """Return an empty text, or a foreign text as it is."""
        return "" if _is_ours(text) else text

    @property
    def key(self) -> str:
        """The name of the file's one entry."""
        return "plugin"

    def span(self, text: str) -> tuple[int, int] | None:
        """Return None: the file is never a person's."""
        return None

    def found_in(self, text: str) -> PluginFile:
        """Return the plugin in the text."""
        return replace(self, text=text.rstrip()) if _is_ours(text) else self

    def command_in(self, text: str, event: str = "stop") -> str | None:
        """Return the command line that the plugin in a text runs at an event, or None."""
        found = _COMMAND.search(text)
        if found is None:
            return None
        try:
            bus, *options = json.loads(found[1])
            return shlex.join([bus, "hook", event, "opencode", *options])
        except (ValueError, TypeError):
            return None


def _is_ours(text: str) -> bool:
    return text.startswith(_FIRST_LINE)
