"""`bus key`, `bus chain`, `bus verify`: what people type, and the exit codes that programs read."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.bus.signing import Keyring

from ..conftest import RunBus
from ..programs import raw_sql, tamper
from .conftest import assert_error

OnTerminal = Callable[..., str]


@pytest.fixture(autouse=True)
def keys(bus_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Keyring:
    """The keys that commands use, for this process too."""
    monkeypatch.setenv("BUS_KEYS_DIR", f"{bus_env['HOME']}/.config/ackbus/keys")
    return Keyring()


def publish(bus_dir: Path, count: int = 1, sender: str = "alice") -> None:
    with Bus.open(bus_dir) as bus:
        for number in range(count):
            bus.publish("t", number, from_agent=sender)


def chain_on(bus_dir: Path) -> None:
    with Bus.open(bus_dir) as bus:
        bus.chain.switch_on()
        bus.chain.catch_up()


def alter(bus_dir: Path, seq: int) -> None:
    tamper(bus_dir, f"UPDATE messages SET payload = '\"changed\"' WHERE seq = {seq}")


def test_key_is_made_outside_the_bus_and_its_secret_is_shown_only_on_request(
    bus_dir: Path, run_bus: RunBus, bus_env: dict[str, str]
) -> None:
    made = run_bus("key", "create", "alice")
    path = Path(bus_env["HOME"], ".config/ackbus/keys/alice.key")
    assert made.out.endswith(f"for alice in {path}\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = json.loads(path.read_text())["keys"][0]["secret"]
    publish(bus_dir)
    for command in (("key", "list"), ("verify",), ("read",), ("export",)):
        assert secret not in run_bus(*command).out
    assert not any(
        secret.encode() in each.read_bytes() or bytes.fromhex(secret) in each.read_bytes()
        for each in bus_dir.rglob("*")
        if each.is_file()
    )
    assert secret in run_bus("key", "show", "alice").out
    assert json.loads(run_bus("key", "show", "alice", "--json").out)["secret"] == secret


def test_keys_are_made_listed_and_removed(bus_dir: Path, run_bus: RunBus) -> None:
    assert run_bus("key", "list").code == 4
    first = json.loads(run_bus("key", "create", "alice", "--json").out)
    assert_error(run_bus("key", "create", "alice"), 3, "has a key already", "--rotate")
    second = json.loads(run_bus("key", "create", "alice", "--rotate", "--json").out)
    listed = [json.loads(line) for line in run_bus("key", "list", "--json").out.splitlines()]
    assert listed == [first, second]
    assert first["key"] in run_bus("key", "list").out
    assert run_bus("key", "remove", "alice").out == "removed 2 keys of alice\n"
    assert_error(run_bus("key", "remove", "alice"), 4, "has no key")
    assert_error(run_bus("key", "show", "alice"), 4, "has no key")
    assert_error(run_bus("key", "create", "bad\x1bname"), 2, "control characters")


def test_keys_are_where_the_option_or_the_environment_says(
    bus_dir: Path, run_bus: RunBus, tmp_path: Path
) -> None:
    run_bus("key", "create", "alice", "--keys", tmp_path / "k")
    env = {"BUS_KEYS_DIR": str(tmp_path / "k")}
    assert run_bus("key", "list", env=env).code == 0
    assert run_bus("publish", "t", "--from", "alice", env=env).code == 0
    assert run_bus("verify", "--strict", env=env).code == 0
    assert run_bus("verify", "--strict", "--keys", tmp_path / "k").code == 0
    assert run_bus("verify", "--strict").code == 1


def test_verify_says_what_was_checked_and_that_nothing_is_wrong(
    bus_dir: Path, run_bus: RunBus, keys: Keyring
) -> None:
    publish(bus_dir, sender="bob")
    keys.create("alice")
    publish(bus_dir, 2)
    done = run_bus("verify")
    assert done.out == (
        "3 messages up to 3; 2 signed, 1 not, 0 with keys that are not here; nothing is wrong\n"
    )
    head = json.loads(run_bus("chain", "on", "--json").out)["head"]
    done = run_bus("verify", "--json")
    assert json.loads(done.out) == {
        "problems": 0,
        "messages": 3,
        "signed": 2,
        "unsigned": 1,
        "unknown": 0,
        "wrong": 0,
        "chained": 3,
        "discarded": 0,
        "gaps": 0,
        "head": head,
    }
    only = json.loads(run_bus("verify", "--chain", "--json").out)
    assert (only["signed"], only["chained"]) == (0, 3)
    only = json.loads(run_bus("verify", "--signatures", "--json").out)
    assert (only["signed"], only["chained"], only["head"]) == (2, 0, None)


def test_forged_sender_is_named_and_the_exit_code_is_1(
    bus_dir: Path, run_bus: RunBus, keys: Keyring
) -> None:
    """Q-03: forged `from` detected by verify."""
    keys.create("alice")
    publish(bus_dir)
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload)"
        " SELECT 'forged', ts_ms, 'alice', 't', '\"pay mallory\"' FROM messages",
    )
    done = run_bus("verify")
    assert done.code == 1
    problem, summary = done.out.splitlines()
    assert problem == "forged: message 2 from alice is not signed, and alice has a key"
    assert summary.endswith("; 1 problem")
    problem, summary = map(json.loads, run_bus("verify", "--json").out.splitlines())
    assert (problem["kind"], problem["seq"], problem["from"]) == ("forged", 2, "alice")
    assert summary["problems"] == 1
    publish(bus_dir, sender="bob")
    assert run_bus("verify", "--from", "3").code == 0


def test_past_the_end_of_the_log_is_no_green_light(bus_dir: Path, run_bus: RunBus) -> None:
    assert run_bus("verify").code == 0
    publish(bus_dir)
    assert_error(run_bus("verify", "--from", "2"), 4, "the log ends at 1, before 2")


def test_altered_message_is_named_by_both(bus_dir: Path, run_bus: RunBus, keys: Keyring) -> None:
    keys.create("alice")
    chain_on(bus_dir)
    publish(bus_dir, 3)
    alter(bus_dir, 2)
    done = run_bus("verify")
    assert done.code == 1
    assert done.out.splitlines()[:2] == [
        "altered: message 2 from alice is not what was chained, or the chain is altered",
        "altered: message 2 from alice is not what its sender signed",
    ]
    assert "; 2 signed, 0 not, 0 with keys that are not here; 1 signature wrong; " in done.out


def test_head_that_was_kept_is_expected(bus_dir: Path, run_bus: RunBus) -> None:
    publish(bus_dir, 2)
    chain_on(bus_dir)
    status = run_bus("chain", "status").out
    assert status.startswith("chain on, head 2:")
    head = status.split()[3].rstrip(",")
    publish(bus_dir, 2)
    assert run_bus("verify", "--expect", head).code == 0
    other = f"3:{'0' * 64}"
    done = run_bus("verify", "--expect", other)
    assert done.code == 1
    assert done.out.startswith("head: the digest of message 3 is ")
    assert "the log up to it is not what it was" in done.out
    for bad in ("3:00", f"{'9' * 30}:{'0' * 64}"):
        assert_error(run_bus("verify", f"--expect={bad}"), 2, "SEQ:DIGEST")


def test_chain_is_switched_off_and_on_again(bus_dir: Path, run_bus: RunBus) -> None:
    assert run_bus("chain", "status").out == "chain off, nothing is in it, 0 behind\n"
    run_bus("chain", "on")
    publish(bus_dir)
    assert run_bus("chain", "off").out.startswith("chain off, head 1:")
    publish(bus_dir)
    assert json.loads(run_bus("chain", "status", "--json").out)["behind"] == 1
    alter(bus_dir, 1)
    assert run_bus("verify", "--chain").code == 1
    assert json.loads(run_bus("chain", "status", "--json").out)["behind"] == 1
    assert json.loads(run_bus("chain", "on", "--json").out)["behind"] == 0


def test_verify_takes_in_what_plain_sql_has_added(bus_dir: Path, run_bus: RunBus) -> None:
    chain_on(bus_dir)
    raw_sql(bus_dir, "INSERT INTO messages (id, ts_ms, from_agent, type) VALUES ('a', 1, 'b', 't')")
    assert json.loads(run_bus("verify", "--json").out)["head"]["seq"] == 1


def test_options_that_contradict_each_other_are_refused(bus_dir: Path, run_bus: RunBus) -> None:
    for options in (("--signatures", "--chain"), ("--chain", "--strict")):
        assert_error(run_bus("verify", *options), 2, "--signatures or --chain")


def test_no_chain_is_no_green_light(bus_dir: Path, run_bus: RunBus) -> None:
    """PITFALLS 27: who asks for the chain is told that there is none."""
    publish(bus_dir)
    assert_error(run_bus("verify", "--chain"), 4, "no chain", "'bus chain on'")


def test_many_problems_are_cut_for_people_and_whole_for_programs(bus: Bus, run_bus: RunBus) -> None:
    with bus.transaction():
        for _ in range(150):
            bus.publish("t", from_agent="bob")
    people = run_bus("verify", "--strict").out.splitlines()
    assert len(people) == 102
    assert people[100] == "… and 50 problems more; --json has them all"
    assert len(run_bus("verify", "--strict", "--json").out.splitlines()) == 151


def test_key_that_others_can_read_is_one_clear_line(
    bus_dir: Path, run_bus: RunBus, keys: Keyring
) -> None:
    keys.create("alice")
    Path(keys.path("alice")).chmod(0o644)
    done = run_bus("publish", "t", "--from", "alice")
    assert_error(done, 1, "others can read", "chmod 0600")
    publish(bus_dir, sender="bob")


def test_names_in_problems_can_not_act_on_a_terminal(
    bus_dir: Path, on_terminal: OnTerminal
) -> None:
    """PITFALLS 24: whoever forges chooses the name too."""
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload_ref)"
        " VALUES ('i', 1, char(27) || '[2Jx' || char(155) || char(8238), 't', '../../etc/passwd')",
    )
    shown = on_terminal("verify", "--strict")
    assert "is not signed" in shown
    assert "\x1b[2J" not in shown
    assert not set("\x9b\u202e") & set(shown)


#: What makes a key file one that can't be used.
SPOILED = [lambda path: path.chmod(0o644), lambda path: path.write_text("")]


@pytest.mark.parametrize("spoil", SPOILED)
def test_key_that_can_not_be_used_accuses_no_message(
    bus_dir: Path, run_bus: RunBus, keys: Keyring, spoil: Callable[[Path], object]
) -> None:
    keys.create("alice")
    publish(bus_dir)
    spoil(Path(keys.path("alice")))
    done = run_bus("verify")
    assert_error(done, 1, "alice.key")
    assert done.out == ""


@pytest.mark.parametrize("spoil", SPOILED)
def test_key_that_can_not_be_used_hides_no_other_and_can_be_removed_as_its_error_says(
    run_bus: RunBus, keys: Keyring, spoil: Callable[[Path], object]
) -> None:
    keys.create("alice")
    keys.create("bob")
    spoil(Path(keys.path("alice")))
    listed = run_bus("key", "list", "--json")
    assert [json.loads(line)["agent"] for line in listed.out.splitlines()] == ["bob"]
    assert listed.code == 1
    assert_error(run_bus("key", "create", "alice", "--rotate"), 1, "'bus key remove alice'")
    assert "could not be used" in run_bus("key", "remove", "alice").out
    assert run_bus("key", "create", "alice").code == 0
