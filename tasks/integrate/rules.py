"""The rules of one integrator."""

from __future__ import annotations

from dataclasses import dataclass

from ...git.branches.candidates import STRATEGIES
from ...git.targets.pushing import LIMIT_S, RemoteTarget
from ...git.targets.refs import LocalTarget
from ...schema.errors import InvalidInput, shown
from ...schema.message.names import check_agent
from .checks import CHECK_TIMEOUT_S, Check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...git.branches.candidates import Strategy
    from ...git.branches.repositories import Place

#: The setting of git that has checks where none are given; one that may be there more than once.
CHECK_SETTING = "ackbus.check"

#: How many entries are tested together at most.
BATCH = 8

#: The agent of an integrator unless it is told otherwise.
AGENT = "integrator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of an integrator.

    Attributes:
        target: the branch that it integrates into.
        checks: the commands that must pass on each candidate.
        strategy: how a head becomes a candidate.
        check_timeout_s: how long each check may take.
        batch: how many entries are tested together at most.
        remote: the remote that the target is pushed to; None: the target is a branch here.
        push_timeout_s: how long a push with its hooks, and a fetch, may take.
        propose: a command that asks somebody else to move the target, instead of moving it.
        agent: the name of the integrator.
    """

    target: str = "main"
    checks: tuple[Check, ...] = ()
    strategy: Strategy = "merge"
    check_timeout_s: float = CHECK_TIMEOUT_S
    batch: int = BATCH
    remote: str | None = None
    push_timeout_s: float = LIMIT_S
    propose: str | None = None
    agent: str = AGENT

    def __post_init__(self) -> None:
        """Refuse what can be no rule."""
        check_agent(self.agent)
        if self.strategy not in STRATEGIES:
            raise InvalidInput(f"strategy must be {', '.join(STRATEGIES)}, not {self.strategy!r}")
        if not 1 <= self.batch <= 100:
            raise InvalidInput(f"a batch has 1 to 100 entries, not {self.batch}")
        if self.check_timeout_s <= 0:
            raise InvalidInput("the time limit of checks must be more than 0 s")
        if self.remote is not None and (not self.remote or self.remote.startswith("-")):
            raise InvalidInput(f"{shown(self.remote)} can be no remote")
        if any(not check.command.strip() for check in self.checks):
            raise InvalidInput("a check is empty")

    @property
    def batch_size(self) -> int:
        """The number of entries that are tested together: only the first can be a fast-forward."""
        return 1 if self.strategy == "ff" or self.propose is not None else self.batch

    def target_in(self, place: Place, held: int) -> LocalTarget:
        """Return the target, in a repository; git holds a lock with us.

        Raises:
            InvalidInput: git takes no branch of such a name.
        """
        place.branch_ref(self.target)
        if self.remote is None:
            return LocalTarget(place, self.target, (held,))
        return RemoteTarget(place, self.target, (held,), self.remote, self.push_timeout_s)


def checks_of(place: Place) -> tuple[Check, ...]:
    """Return the checks that the settings of a repository name; no commit can change these."""
    from ...git.repository import CommandFailed

    try:
        raw = place.git.run("config", "-z", "--get-all", CHECK_SETTING)
    except CommandFailed:  # not set
        return ()
    return tuple(Check(text) for text in raw.decode("utf-8", "replace").split("\0") if text)
