"""Agent programs that are known by name: how each is run without a person, and what it may do.

None of them has anybody to ask. What a mode does not allow, the program refuses by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...schema.errors import InvalidInput, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: The word of a command that stands for the prompt, and that for a file with it; also after `=` in
#: an option. A command without either reads the prompt from stdin.
PROMPT, PROMPT_FILE = "{prompt}", "{prompt_file}"

#: The permissions of a program. `edit`: change files in the work tree, and run only what its own
#: settings allow. `all`: run any command as the user, so best in a container.
EDIT, ALL = "edit", "all"
MODES = (EDIT, ALL)


@dataclass(frozen=True, slots=True)
class Preset:
    """The non-interactive form of an agent program.

    Attributes:
        title: its name, for people.
        command: it, and its arguments up to those of the mode.
        modes: for each mode its arguments.
        ends: the arguments after those, as the prompt.
        variables: for each mode its variables of the environment.
    """

    title: str
    command: tuple[str, ...]
    modes: Mapping[str, tuple[str, ...]]
    ends: tuple[str, ...] = ()
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def words(self, mode: str) -> list[str]:
        """Return the command for a mode."""
        return [*self.command, *self.modes[mode], *self.ends]


PRESETS = {
    "claude": Preset(
        "Claude Code",
        ("claude", "--print"),
        {
            EDIT: ("--permission-mode", "acceptEdits"),
            ALL: ("--permission-mode", "bypassPermissions"),
        },
    ),
    "codex": Preset(
        "Codex",
        ("codex", "exec", "--skip-git-repo-check"),
        {
            EDIT: ("--sandbox", "workspace-write"),
            ALL: ("--sandbox", "danger-full-access"),
        },
        ("-",),
    ),
    "gemini": Preset(
        "Gemini CLI",
        ("gemini",),
        {EDIT: ("--approval-mode=auto_edit",), ALL: ("--approval-mode=yolo",)},
    ),
    "copilot": Preset(
        "GitHub Copilot CLI",
        ("copilot", "--no-color"),
        {EDIT: ("--allow-tool=write",), ALL: ("--allow-all-tools",)},
        ("-p", PROMPT),
    ),
    "opencode": Preset(
        "opencode",
        ("opencode", "run"),
        {EDIT: (), ALL: ()},
        ("--", PROMPT),
        {
            EDIT: {"OPENCODE_PERMISSION": '{"edit":"allow","bash":"deny","webfetch":"deny"}'},
            ALL: {"OPENCODE_PERMISSION": '"allow"'},
        },
    ),
}


def preset(name: str, mode: str) -> Preset:
    """Return an agent program by its name.

    Raises:
        InvalidInput: it is not known, or has no such mode.
    """
    if name not in PRESETS:
        known = ", ".join(PRESETS)
        raise InvalidInput(
            f"no agent program {shown(name)} is known, only {known}; give a command after --"
        )
    if mode not in MODES:
        raise InvalidInput(f"permissions must be {' or '.join(MODES)}, not {shown(mode)}")
    return PRESETS[name]
