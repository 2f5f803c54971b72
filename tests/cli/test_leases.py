"""bus lease acquire, renew, release, list."""

import json
import time

import pytest

from ackbus import Bus, Lease
from ackbus.cli.commands.reserve import lease_error

from ..conftest import RunBus
from .conftest import StartBus, assert_error, error_of

pytestmark = pytest.mark.usefixtures("bus_dir")


def test_lease_is_granted_once_and_its_token_rules(run_bus: RunBus, bus: Bus) -> None:
    """M-69 to M-74, PITFALLS 15: granted false, and an exit code of its own."""
    granted = run_bus("lease", "acquire", "deploy", "--agent", "a", "--json")
    lease = json.loads(granted.out)
    assert list(lease) == ["granted", "name", "holder", "token", "until"]
    assert (granted.code, lease["granted"], lease["holder"]) == (0, True, "a")
    refused = run_bus("lease", "acquire", "deploy", "--agent", "b", "--json")
    assert refused.code == 3
    assert json.loads(refused.out) == {
        "granted": False,
        "name": "deploy",
        "held_by": "a",
        "token": lease["token"],
        "until": lease["until"],
    }
    assert error_of(refused.err).startswith("lease 'deploy' is held by a until ")
    assert_error(run_bus("lease", "acquire", "deploy", "--agent", "a"), 3, "held by a")

    token = str(lease["token"])
    for act in ("renew", "release"):
        wrong = ("lease", act, "deploy", "--agent", "b", "--token", token)
        assert_error(run_bus(*wrong), 3, "does not hold")
    ours = ("deploy", "--token", token)
    renewed = run_bus("lease", "renew", *ours, "--ttl", "1h", env={"BUS_AGENT": "a"})
    assert renewed.out.startswith(f"deploy  a  token {token}  until ")
    listed = json.loads(run_bus("lease", "list", "--json").out)
    assert (listed["name"], listed["until"] > lease["until"]) == ("deploy", True)
    assert run_bus("lease", "release", *ours, "--agent", "a").code == 0
    assert run_bus("lease", "list").code == 4
    assert_error(run_bus("lease", "release", *ours, "--agent", "a"), 3, "free")


def test_waiting_for_a_lease_ends_with_it_or_with_5(
    run_bus: RunBus, start_bus: StartBus, bus: Bus
) -> None:
    """M-71, M-75: an ended lease can be taken; exit code 5 when the wait runs out."""
    held = bus.leases.acquire("x", "a", lease_s=60)
    assert held is not None
    late = run_bus("lease", "acquire", "x", "--agent", "b", "--wait", "200ms")
    assert_error(late, 5, "held by a")
    waiting = start_bus("lease", "acquire", "x", "--agent", "b", "--wait", "20", "--json")
    time.sleep(0.2)  # most likely it waits by now; it must be granted either way
    bus.leases.release(held)
    out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, json.loads(out)["token"] > held.token) == (0, True)


def test_lease_input_is_checked(run_bus: RunBus) -> None:
    assert_error(run_bus("lease", "acquire", "x"), 2, "--agent")
    assert_error(run_bus("lease", "acquire", "x", "--agent", "a", "--ttl", "8d"), 2, "86400")
    assert_error(run_bus("lease", "acquire", "x", "--agent", "a", "--ttl", "x"), 2, "x")
    assert_error(run_bus("lease", "renew", "x", "--agent", "a"), 2, "--token")
    assert_error(run_bus("lease", "steal", "x"), 2, "steal")


def test_lease_that_nobody_holds_is_not_called_held() -> None:
    """M-72: the lease has just become free: try again, exit code 5."""
    ended = Lease("x", "a", 1, 0, 1000)
    for held in (None, ended):
        error = lease_error("x", held, 1000, waited=False)
        assert (error.exit_code, "free only now" in str(error)) == (5, True)
    error = lease_error("x", ended, 999, waited=False)
    assert (error.exit_code, "is held by a until" in str(error)) == (3, True)
    assert lease_error("x", ended, 999, waited=True).exit_code == 5
