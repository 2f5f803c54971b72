"""The hash chain over the log, and verifying the log by it and by signatures."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

import typer

from ...bus.trust.chain import Link
from ...bus.trust.keys import Keyring
from ...bus.trust.verification import Verification
from ...schema.errors import AckbusError, InvalidInput, NotFound
from ..definition import Commands, optional
from ..options.common import HERE, Place
from ..options.filters import THE_FIRST, Begin
from ..show import output
from ..show.progress import progress
from .key import KeysDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.trust.chain import Chain, Link
    from ...bus.trust.verification import Verification
    from ...bus.trust.verification_checks import Problem

commands = Commands()
chain = commands.group("chain", help="A hash chain over the log, which shows any later change.")

#: How many problems are printed for people; JSON has them all.
_SHOWN = 100


@chain.command("on", example="bus chain on")
def switch_on(place: Place = HERE) -> int:
    """Chain the log from its first message on.

    Running programs extend the chain within a minute; messages of programs that don't are added by
    the next program that does, or by 'bus verify'.
    """
    with place.open() as bus:
        bus.chain.switch_on()
        _catch_up(bus.chain)
        _print_status(bus.chain)
    return 0


@chain.command("off", example="bus chain off")
def switch_off(place: Place = HERE) -> int:
    """Stop extending the chain. Its links stay, and can be verified."""
    with place.open() as bus:
        bus.chain.switch_off()
        _print_status(bus.chain)
    return 0


@chain.command("status", example="bus chain status --json")
def status(place: Place = HERE) -> int:
    """Print the head of the chain, and how far behind the log it is.

    Keep the head, SEQ:DIGEST, out of reach of the writers of the bus, for instance in git: with
    it 'bus verify --expect' shows any change up to there.
    """
    with place.open() as bus:
        _print_status(bus.chain)
    return 0


def _print_status(chain: Chain) -> None:
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
    place: Place = HERE,
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
            with suppress(AckbusError):  # whoever can't write can read what is there
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
        found = _print_problems(walk)
    _print_summary(walk, found, has_signatures=not chain)
    return 1 if found else 0


def _link(text: str) -> Link:
    parts = re.fullmatch(r"(\d{1,18}):([0-9a-f]{64})", text, re.ASCII)
    if parts is None:
        raise InvalidInput(
            f"--expect must be SEQ:DIGEST, as 'bus chain status' has it, not {text!a}"
        )
    return Link(int(parts[1]), bytes.fromhex(parts[2]))


def _print_problems(walk: Verification) -> int:
    """Print the problems, and return their number."""
    found = 0
    with progress("verifying", walk.newest_seq) as move:
        for found, problem in enumerate(walk.problems(move), 1):
            if found <= _SHOWN or output.is_json():
                output.result(_record(problem), f"{problem.kind}: {problem.text}")
    if found > _SHOWN and not output.is_json():
        output.line(f"… and {output.counted(found - _SHOWN, 'problem')} more; --json has them all")
    return found


def _record(problem: Problem) -> dict[str, object]:
    record = asdict(problem)
    sender = record.pop("from_agent")
    return record | {"from": sender}


def _print_summary(walk: Verification, found: int, *, has_signatures: bool) -> None:
    counts = walk.counts
    parts = [f"{output.counted(counts.messages, 'message')} up to {walk.newest_seq}"]
    if has_signatures:
        parts.append(
            f"{counts.signed:,} signed, {counts.unsigned:,} not, {counts.unknown:,} with keys that"
            " are not here"
        )
    if counts.wrong:
        parts.append(f"{output.counted(counts.wrong, 'signature')} wrong")
    if walk.head is not None:
        parts.append(f"{counts.chained:,} in the chain, head {walk.head}")
    if counts.gaps:
        parts.append(f"{output.counted(counts.gaps, 'number')} without a message")
    parts += map(str, walk.discarded)
    verdict = output.counted(found, "problem") if found else "nothing is wrong"
    record = {"problems": found, **asdict(walk.counts), "head": _head(walk.head)}
    output.result(record, f"{'; '.join(parts)}; {verdict}")
