"""Keys of agents, which sign messages: create, list, show, remove."""

from __future__ import annotations

from typing import Annotated

import typer

from ...bus.trust.keys import Keyring
from ...schema.directory.layout import KEYS_DIR_VARIABLE
from ...schema.errors import BusUnusable, NotFound
from ...schema.message.times import format_ts
from ..definition import Commands, optional
from ..options.common import Agent, Json, Verbose
from ..show import output
from ..show.confirmation import Yes, confirm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.trust.keys import Key, Keyring

commands = Commands()
key = commands.group("key", help="Keys of agents: an agent with a key signs all its messages.")

KeysDirectory = Annotated[
    str | None,
    optional(
        "DIR",
        f"The folder of the keys. Default: ${KEYS_DIR_VARIABLE}, else ackbus/keys in your "
        "configuration, outside of every bus.",
        "--keys",
    ),
]


@key.command("create", example="bus key create worker-1")
def create(
    agent: Agent,
    rotate: Annotated[
        bool,
        typer.Option(
            "--rotate",
            help="Add a newer key; older ones stay, for verification.",
        ),
    ] = False,
    keys: KeysDirectory = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Make a key for an agent, and print its id.

    Its file is yours alone to read. From then on every program that can read it signs the agent's
    messages, on every bus; running programs notice it within a minute. Exit code 3 when the agent
    has a key, unless --rotate adds one.
    """
    keyring = Keyring(keys)
    made = keyring.create(agent, rotate=rotate)
    told = f"made key {made.id} for {agent} in {keyring.path(agent)}"
    output.result(_record(keyring, agent, made), told)
    return 0


@key.command("list", example="bus key list")
def show_list(keys: KeysDirectory = None, json: Json = False, verbose: Verbose = False) -> int:
    """List the keys of agents, without the secrets.

    Each agent signs with its last key. Exit code 4 when there are none, 1 when a file of some can't
    be used.
    """
    keyring = Keyring(keys)
    records: list[dict[str, object]] = []
    code = 0
    for agent in keyring.agents():
        try:
            records += [_record(keyring, agent, each) for each in keyring.of(agent)]
        except BusUnusable as error:  # the others are none the worse
            output.error(str(error), error)
            code = error.exit_code
    none = output.results(records)
    return code or none


@key.command("show", example="bus key show worker-1")
def show(
    agent: Agent, keys: KeysDirectory = None, json: Json = False, verbose: Verbose = False
) -> int:
    """Print the secrets of an agent's keys in hex.

    It signs with the last one. The secret is enough to sign as the agent. Exit code 4 when it has
    no key.
    """
    keyring = Keyring(keys)
    found = keyring.of(agent)
    if not found:
        raise NotFound(f"agent {agent!r} has no key in {keyring.directory}")
    for each in found:
        output.result(
            _record(keyring, agent, each) | {"secret": each.secret.hex()},
            f"{each.id}  {each.secret.hex()}",
        )
    return 0


@key.command("remove", example="bus key remove worker-1")
def remove(
    agent: Agent,
    keys: KeysDirectory = None,
    yes: Yes = False,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Delete all keys of an agent, which no longer signs.

    Its signatures can't be verified any more. An unusable key file is deleted too. Exit code 4 when
    it has no key.
    """
    confirm(f"delete all keys of {agent}", yes)
    count = Keyring(keys).remove(agent)
    told = f"removed the key file of {agent}, which could not be used"
    if count is not None:
        told = f"removed {output.counted(count, 'key')} of {agent}"
    output.result({"agent": agent, "removed": count}, told)
    return 0


def _record(keyring: Keyring, agent: str, key: Key) -> dict[str, object]:
    created = format_ts(key.created_at_ms)
    return {"agent": agent, "key": key.id, "created": created, "file": keyring.path(agent)}
