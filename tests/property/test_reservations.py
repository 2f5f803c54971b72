"""Reservations against a plain model: sets of files, and who has them until when."""

import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackbus import Bus

from ..sizes import size
from .conftest import RUNS
from .test_path_patterns import PATHS, fits, patterns

pytestmark = pytest.mark.slow

#: Which files each pattern of a run stands for, found by looking at every small path.
Files = frozenset[str]

wishes = st.tuples(
    st.sampled_from(["alice", "bob", "carol"]),
    st.lists(patterns(), min_size=1, max_size=2),
    st.booleans(),
    st.integers(1, 5),  # how long it lasts, and
    st.integers(0, 3),  # how much later the next one comes, in seconds
)


class Model:
    """The held reservations: agent and pattern give files, mode and end."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.held: dict[tuple[str, str], tuple[Files, bool, int]] = {}

    def reserve(self, agent: str, texts: list[str], shared: bool, ttl_s: int) -> bool:
        self.held = {key: each for key, each in self.held.items() if each[2] > self.now_ms}
        wanted = {text: frozenset(p for p in PATHS if fits(text, p)) for text in texts}
        for files in wanted.values():
            for (holder, _), (taken, is_shared, _) in self.held.items():
                if holder != agent and not (shared and is_shared) and files & taken:
                    return False
        for text, files in wanted.items():
            end_ms = self.now_ms + 1000 * ttl_s
            before = self.held.get((agent, text))
            if before is not None and before[1] == shared:
                end_ms = max(end_ms, before[2])
            self.held[agent, text] = files, shared, end_ms
        return True


@settings(max_examples=size(sample=12, whole=25) * RUNS)
@given(st.lists(wishes, min_size=2, max_size=8))
def test_reservations_are_granted_exactly_where_no_file_is_anothers(
    course: list[tuple[str, list[str], bool, int, int]],
) -> None:
    """PITFALLS 5, 15; promise 6: and tokens grow with each grant."""
    model = Model()
    last_token = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        Bus.init(folder, clock=lambda: model.now_ms) as bus,
    ):
        for agent, texts, shared, ttl_s, later_s in course:
            known = {each.token for each in bus.reservations.list()}
            result = bus.reservations.reserve(texts, agent, shared=shared, lease_s=ttl_s)
            assert result.granted == model.reserve(agent, texts, shared, ttl_s)
            new = sorted({each.token for each in result.reservations} - known)
            assert all(token > last_token for token in new)
            last_token = max([last_token, *new])
            model.now_ms += 1000 * later_s
            assert {
                (each.agent, each.path): (each.mode == "shared", each.until_ms)
                for each in bus.reservations.list()
            } == {key: each[1:] for key, each in model.held.items() if each[2] > model.now_ms}
