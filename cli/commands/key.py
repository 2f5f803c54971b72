"""Keys, signatures and the chain: key, verify, chain."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

import typer

from ...bus.signing import Keyring
from ...bus.verification import Link, Verification
from ...schema.directory.layout import KEYS_DIR_VARIABLE
from ...schema.errors import AckbusError, BusUnusable, InvalidInput, NotFound
from ...schema.message.times import format_ts
from ..definition import Commands, optional
from ..options.common import HERE, Agent, BusPlace, Json, Verbose
from ..options.filters import THE_FIRST, Begin
from ..show.confirmation import Yes, confirm
from ..show.output import Output
from ..show.terminal import progress
from ..show.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.signing import SigningKey
    from ...bus.verification import Chain, Problem

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
    output: Output,
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
    new_key = keyring.create(agent, rotate=rotate)
    summary = f"made key {new_key.id} for {agent} in {keyring.path(agent)}"
    output.result(_key_record(keyring, agent, new_key), summary)
    return 0


@key.command("list", example="bus key list")
def show_list(
    output: Output, keys: KeysDirectory = None, json: Json = False, verbose: Verbose = False
) -> int:
    """List the keys of agents, without the secrets.

    Each agent signs with its last key. Exit code 4 when there are none, 1 when a file of some can't
    be used.
    """
    keyring = Keyring(keys)
    records: list[dict[str, object]] = []
    code = 0
    for agent in keyring.agents():
        try:
            records += [_key_record(keyring, agent, agent_key) for agent_key in keyring.of(agent)]
        except BusUnusable as error:  # the keys of others are still listed
            output.error(str(error), error)
            code = error.exit_code
    code_of_list = output.results(records)  # 4 when it is empty
    return code or code_of_list


@key.command("show", example="bus key show worker-1")
def show(
    output: Output,
    agent: Agent,
    keys: KeysDirectory = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Print the secrets of an agent's keys in hex.

    It signs with the last one. The secret is enough to sign as the agent. Exit code 4 when it has
    no key.
    """
    keyring = Keyring(keys)
    agent_keys = keyring.of(agent)
    if not agent_keys:
        raise NotFound(f"agent {agent!r} has no key in {keyring.directory}")
    for agent_key in agent_keys:
        output.result(
            _key_record(keyring, agent, agent_key) | {"secret": agent_key.secret.hex()},
            f"{agent_key.id}  {agent_key.secret.hex()}",
        )
    return 0


@key.command("remove", example="bus key remove worker-1")
def remove(
    output: Output,
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
    summary = f"removed the key file of {agent}, which could not be used"
    if count is not None:
        summary = f"removed {counted(count, 'key')} of {agent}"
    output.result({"agent": agent, "removed": count}, summary)
    return 0


def _key_record(keyring: Keyring, agent: str, key: SigningKey) -> dict[str, object]:
    created = format_ts(key.created_at_ms)
    return {"agent": agent, "key": key.id, "created": created, "file": keyring.path(agent)}


# The hash chain over the log, and verifying the log by it and by signatures.

chain = commands.group("chain", help="A hash chain over the log, which shows any later change.")

#: How many problems are printed for people; JSON has them all.
_SHOWN = 100


@chain.command("on", example="bus chain on")
def switch_on(place: BusPlace = HERE) -> int:
    """Chain the log from its first message on.

    Running programs extend the chain within a minute; messages of programs that don't are added by
    the next program that does, or by 'bus verify'.
    """
    with place.open() as bus:
        bus.chain.switch_on()
        _catch_up(bus.chain)
        _print_status(place.output, bus.chain)
    return 0


@chain.command("off", example="bus chain off")
def switch_off(place: BusPlace = HERE) -> int:
    """Stop extending the chain. Its links stay, and can be verified."""
    with place.open() as bus:
        bus.chain.switch_off()
        _print_status(place.output, bus.chain)
    return 0


@chain.command("status", example="bus chain status --json")
def status(place: BusPlace = HERE) -> int:
    """Print the head of the chain, and how far behind the log it is.

    Keep the head, SEQ:DIGEST, out of reach of the writers of the bus, for instance in git: with
    it 'bus verify --expect' shows any change up to there.
    """
    with place.open() as bus:
        _print_status(place.output, bus.chain)
    return 0


def _print_status(output: Output, chain: Chain) -> None:
    is_on, head, behind = chain.is_on(), chain.head(), chain.behind()
    where = f"head {head}" if head else "nothing is in it"
    output.result(
        {"on": is_on, "head": _head(head), "behind": behind},
        f"chain {'on' if is_on else 'off'}, {where}, {behind:,} behind",
    )


def _head(link: Link | None) -> dict[str, object] | None:
    return None if link is None else {"seq": link.seq, "digest": link.digest.hex()}


def _catch_up(chain: Chain) -> None:
    head = chain.head()
    begin = head.seq if head else 0
    with progress("chaining", chain.behind()) as move:
        chain.catch_up(lambda seq: move(seq - begin))


@commands.command("verify", example="bus verify --strict")
def verify(
    signatures: Annotated[
        bool, typer.Option("--signatures", help="Check signatures, and not the chain.")
    ] = False,
    chain: Annotated[
        bool, typer.Option("--chain", help="Check the chain, and not signatures.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Every message must be signed with a key that is here."),
    ] = False,
    expect: Annotated[
        str | None,
        optional(
            "SEQ:DIGEST", "A head of the chain that was kept elsewhere; the chain must have it."
        ),
    ] = None,
    begin: Begin = THE_FIRST,
    keys: KeysDirectory = None,
    place: BusPlace = HERE,
) -> int:
    """Check the log against its signatures and its chain.

    Prints a line for each message that was altered, is missing, was inserted later, has lost its
    payload, or is not signed although its sender has a key; then the counts, and the head of the
    chain. A chain that is on is extended first. Exit code 1 when anything is wrong; 4 when --chain
    finds no chain, or the log ends before --from.
    """
    if (signatures and chain) or (signatures and expect) or (chain and strict):
        raise InvalidInput(
            "give --signatures or --chain, and neither to check both; --expect is about the chain,"
            " --strict about signatures"
        )
    with place.open() as bus:
        if not signatures and bus.chain.is_on():
            with suppress(AckbusError):  # without write access the chain is checked as it is
                _catch_up(bus.chain)
        from_seq = begin.seq(bus)
        walk = Verification(
            bus,
            keyring=None if chain else Keyring(keys),
            chain=not signatures,
            strict=strict,
            from_seq=from_seq,
            expected=None if expect is None else _link(expect),
        )
        if (chain or expect) and walk.head is None:
            raise NotFound("there is no chain; 'bus chain on' begins one")
        if from_seq > max(walk.newest_seq, 1):  # an empty log is read from 1, as any other
            raise NotFound(f"the log ends at {walk.newest_seq}, before {from_seq}")
        problem_count = _print_problems(place.output, walk)
    _print_summary(place.output, walk, problem_count, has_signatures=not chain)
    return 1 if problem_count else 0


def _link(text: str) -> Link:
    parts = re.fullmatch(r"(\d{1,18}):([0-9a-f]{64})", text, re.ASCII)
    if parts is None:
        raise InvalidInput(
            f"--expect must be SEQ:DIGEST, as 'bus chain status' has it, not {text!a}"
        )
    return Link(int(parts[1]), bytes.fromhex(parts[2]))


def _print_problems(output: Output, walk: Verification) -> int:
    """Print the problems, and return their number."""
    count = 0
    with progress("verifying", walk.newest_seq) as move:
        for count, problem in enumerate(walk.problems(move), 1):
            if count <= _SHOWN or output.is_json:
                output.result(_record(problem), f"{problem.kind}: {problem.text}")
    if count > _SHOWN and not output.is_json:
        output.line(f"… and {counted(count - _SHOWN, 'problem')} more; --json has them all")
    return count


def _record(problem: Problem) -> dict[str, object]:
    record = asdict(problem)
    sender = record.pop("from_agent")
    return record | {"from": sender}


def _print_summary(
    output: Output, walk: Verification, problem_count: int, *, has_signatures: bool
) -> None:
    counts = walk.counts
    parts = [f"{counted(counts.messages, 'message')} up to {walk.newest_seq}"]
    if has_signatures:
        parts.append(
            f"{counts.signed:,} signed, {counts.unsigned:,} not, {counts.unknown:,} with keys that"
            " are not here"
        )
    if counts.wrong:
        parts.append(f"{counted(counts.wrong, 'signature')} wrong")
    if walk.head is not None:
        parts.append(f"{counts.chained:,} in the chain, head {walk.head}")
    if counts.gaps:
        parts.append(f"{counted(counts.gaps, 'number')} without a message")
    parts += map(str, walk.discarded)
    verdict = counted(problem_count, "problem") if problem_count else "nothing is wrong"
    record = {"problems": problem_count, **asdict(walk.counts), "head": _head(walk.head)}
    output.result(record, f"{'; '.join(parts)}; {verdict}")
