"""Other programs that use the bus: setup git, setup claude and others, prime, hook."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from ...bus.reservations.reservations import project_root
from ...git.bus_files import DriverSetup
from ...schema.directory.layout import BUS_DIRECTORY, expand_home
from ...schema.errors import BusNotFound, InvalidInput, Refused
from ...schema.message.names import check_agent
from ...server.mcp.tools.profiles import DEFAULT, PROFILES, check_profile
from ...setup.checking import check
from ...setup.installation import Installation
from ...setup.programs import GLOBAL, LOCAL, PROGRAMS, PROJECT, Scope
from ..definition import Commands, optional
from ..extras import are_installed, install_command
from ..fast import agent_hooks as hook_action
from ..fast.prime import instruction
from ..hints import AGENT_VARIABLE
from ..options.common import HERE, BusPlace, BusPlaceOnly, Json, Verbose
from ..own_session import own_path
from ..running.looking import looking
from ..show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.directory.layout import Layout

commands = Commands()

#: The profiles, each with how many tools it has.
_TOOLS = " or ".join(f"{name} ({len(tools)})" for name, tools in PROFILES.items())

Profile = Annotated[
    str,
    typer.Option(metavar="P", help="The tools that the agent has: default or full."),
]
setup = commands.group("setup", "Set up other programs for the bus.")


@setup.command("git", example="bus setup git")
def setup_git(
    check: Annotated[
        bool,
        typer.Option("--check", help="Change nothing; print what is missing, and exit with 3."),
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove all of it again.")] = False,
    place: BusPlace = HERE,
) -> int:
    """Configure git to show, merge and keep bus.jsonl by message.

    Adds lines to .gitignore and .gitattributes in the bus directory, which are to be committed,
    and drivers to the configuration of this clone, which can't be: every clone runs this once.
    Safe to repeat; other entries stay.
    """
    if check and remove:
        raise InvalidInput("give --check or --remove, not both")
    with place.open() as bus:
        layout = bus.layout
    if check:
        return _check_git(place.output, layout)
    drivers = DriverSetup(layout, own_path())
    lines = drivers.remove() if remove else drivers.install()
    _print_setup(place.output, "done", lines)
    if lines and not remove:
        place.output.note(
            "every other clone runs 'bus setup git' too: drivers are no part of a commit"
        )
    return 0


@looking()
def _check_git(output: Output, layout: Layout) -> int:
    lines = DriverSetup(layout, own_path()).missing()
    _print_setup(output, "missing", lines)
    return Refused.exit_code if lines else 0


def _print_setup(output: Output, what: str, lines: list[str]) -> None:
    none = "nothing is missing" if what == "missing" else "nothing to do"
    output.result({what: lines}, *(lines or [none]))


@dataclass(frozen=True, kw_only=True)
class SetupMode:
    """The mode of `bus setup`: change, check, remove, or only show."""

    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Change nothing; test as the program would. Exit code 3: it fails."
        ),
    ] = False
    remove: Annotated[bool, typer.Option("--remove", help="Take out what was put in.")] = False
    print: Annotated[
        bool, typer.Option("--print", help="Change nothing; print what would be put where.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; print the changes as a diff.")
    ] = False
    local: Annotated[
        bool, typer.Option("--local", help="For you alone: change no file that is committed.")
    ] = False
    everywhere: Annotated[
        bool, typer.Option("--global", help="For all your projects, each with its own bus.")
    ] = False

    def validate(self) -> None:
        """Refuse options that contradict each other."""
        if sum((self.check, self.print, self.remove or self.dry_run)) > 1:
            raise InvalidInput("give only one of --check, --print, and --remove or --dry-run")
        if self.local and self.everywhere:
            raise InvalidInput("give --local or --global, not both")


@dataclass(frozen=True, kw_only=True)
class SetupChoices:
    """The choices of a setup; choices that are not given stay as they are set up."""

    agent: Annotated[
        str | None,
        optional(
            "NAME",
            "The name under which its agents act. Default: the one that is set up, else"
            " the program's.",
        ),
    ] = None
    profile: Annotated[
        str | None,
        optional("P", f"Which tools they have: {_TOOLS}; it is kept."),
    ] = None
    bodies: Annotated[
        bool | None,
        typer.Option(
            "--bodies/--no-bodies",
            help="No hook shows bodies: kept for set-ups that give it.",
            show_default=False,
        ),
    ] = None
    wake: Annotated[
        bool | None,
        typer.Option(
            "--wake/--no-wake",
            help="Interactive mail wakes an idle agent, or not; it is kept.",
            show_default=False,
        ),
    ] = None

    def check(self, name: str) -> None:
        """Refuse a choice that breaks a rule, or that a program does not have."""
        if self.agent is not None:
            check_agent(self.agent)
        if self.profile is not None:
            check_profile(self.profile)
        if self.wake and not PROGRAMS[name].can_wait:
            title = PROGRAMS[name].title
            raise InvalidInput(f"{title} can't wait for mail by itself: see 'bus wake --help'")

    def applied_to(self, installation: Installation) -> Installation:
        """Return a setup with these choices."""
        return replace(
            installation,
            agent=self.agent or installation.agent,
            profile=self.profile or installation.profile,
            bodies=installation.bodies if self.bodies is None else self.bodies,
            wakes=installation.wakes if self.wake is None else self.wake,
        )


def _define(name: str) -> None:
    """Define `bus setup` of one program."""
    title = PROGRAMS[name].title

    def command(mode: SetupMode, choices: SetupChoices, place: BusPlace = HERE) -> int:
        mode.validate()
        choices.check(name)
        base = _installation(name, mode, place)
        base.check_scope()
        installation = choices.applied_to(base.as_it_stands())
        if mode.print:
            return _print(place.output, installation)
        if mode.check:
            return _check(installation, place)
        return _change(place.output, installation, mode)

    delivery = "and hooks that hand over mail" if PROGRAMS[name].delivers else "but no hooks"
    command.__name__ = f"setup_{name}"
    command.__doc__ = f"""Set up {title.partition(",")[0]}: MCP, {delivery}.

    Merges the MCP server of this bus into the configuration of {title}, and adds a
    pointer to AGENTS.md. Safe to repeat; other entries stay.
    """
    setup.command(name, example=f"bus setup {name} --agent reviewer")(command)


for _name in PROGRAMS:
    _define(_name)


def _installation(name: str, mode: SetupMode, place: BusPlace) -> Installation:
    named = place.named()
    options = ("--user",) if place.user else ("--dir", named) if named is not None else ()
    if mode.everywhere:
        return Installation(name, name, own_path(), expand_home("~"), options, GLOBAL)
    try:
        bus_directory = place.find()[0]
    except BusNotFound:
        if not mode.remove:  # removing needs no bus
            raise
        # The bus was here: Windsurf's list of all projects names the server by this path.
        bus_directory = os.path.join(project_root(os.path.join(os.getcwd(), ".")), BUS_DIRECTORY)
    options = options or ("--dir", bus_directory)
    scope: Scope = LOCAL if mode.local else PROJECT
    return Installation(name, name, own_path(), project_root(bus_directory), options, scope)


def _print(output: Output, installation: Installation) -> int:
    for file in installation.files():
        text = file.with_all(None)
        output.result({"path": file.path, "text": text}, f"# {file.path}")
        if not output.is_json:
            output.body(text)
    return 0


def _change(output: Output, installation: Installation, mode: SetupMode) -> int:
    changes = installation.removals() if mode.remove else installation.additions()
    copies = []
    for change in changes:
        if mode.dry_run:
            lines = change.diff()
        else:
            copies.append(change.apply())
            lines = [f"{change.verb} {change.path}"]
        diff = change.diff() if output.is_json else []
        output.result({"path": change.path, "verb": change.verb, "diff": diff}, *lines)
    if any(copies):
        output.note(f"what was taken out is kept in {os.path.dirname(next(filter(None, copies)))}")
    if not changes and not output.is_json:
        output.line("nothing to do")
    if not mode.remove and not mode.dry_run:
        notes = installation.notes if changes else []
        _print_notes(output, [*notes, *installation.clashes()])
    return 0


def _print_notes(output: Output, notes: list[str]) -> None:
    """Print the steps that are left to a person."""
    for note in notes:
        output.note(note)
    if not are_installed("mcp"):
        output.note(f"warning: the server can't start before you run: {install_command('mcp')}")
    if shutil.which("bus") is None:
        folder = os.path.dirname(own_path())
        output.note(f"warning: agents are told to run 'bus', and PATH has none; add {folder} to it")


def _check(installation: Installation, place: BusPlace) -> int:
    is_well = True
    with place.open() as bus:
        for finding in check(installation, bus):
            is_well = is_well and finding.is_well
            place.output.result(
                {"part": finding.part, "ok": finding.is_well, "says": finding.says},
                f"{'ok' if finding.is_well else 'bad':4}{finding.part}:"
                f" {place.output.completed(finding.says)}",
            )
    return 0 if is_well else Refused.exit_code


@commands.command("prime", example="bus prime --agent reviewer")
def prime(
    output: Output,
    agent: Annotated[str | None, optional("NAME", "The agent. Default: $BUS_AGENT.")] = None,
    profile: Profile = DEFAULT,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Print a short guide to the bus for an agent."""
    agent = agent or os.environ.get(AGENT_VARIABLE) or None
    if agent is not None:
        check_agent(agent)
    if output.is_json:
        output.json_line({"agent": agent, "instruction": instruction(agent, profile)})
    else:
        output.body(instruction(agent, profile))
    return 0


@commands.command("hook", example="bus hook stop claude --agent reviewer")
def hook(
    event: Annotated[
        str, typer.Argument(metavar="EVENT", help="start, tool, stop, compact or wait.")
    ],
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM", help=f"{', '.join(hook_action.ANSWERS)}.")
    ],
    agent: Annotated[str | None, optional("NAME", "Whose mail. Default: $BUS_AGENT.")] = None,
    no_bodies: Annotated[
        bool,
        typer.Option("--no-bodies", help="No hook shows bodies: kept for set-ups that give it."),
    ] = False,
    profile: Profile = DEFAULT,
    place: BusPlaceOnly = HERE,
) -> int:
    """Answer an event of an agent's program, as set up.

    'bus setup' configures this. At the start it prints the guide, after a tool the new mail, and
    at a stop it keeps the agent once from ending while mail waits; with --wake another one waits
    beside an idle agent for interactive mail. It acknowledges nothing, prints
    nothing without mail, and reports errors on stderr with exit code 0: the agent goes on without
    the bus.
    """
    return hook_action.hook(
        place.output,
        event,
        program,
        agent=agent,
        directory=place.directory,
        user=place.user,
        no_bodies=no_bodies,
        profile=profile,
    )
