"""Each trap is one: plain git runs it. Else the walks over commands would show nothing."""

import pytest

from .place import Place
from .planters import DRIVERS, HOOKS, PROGRAMS, Planter
from .roads import ELSEWHERE, REMOTES

pytestmark = pytest.mark.slow

ALL = [*HOOKS, *PROGRAMS, *DRIVERS, *REMOTES, *ELSEWHERE]


@pytest.mark.parametrize("planter", ALL, ids=lambda planter: planter.name)
def test_plain_git_runs_what_is_planted(planter: Planter, place: Place) -> None:
    command = place.around.command(planter.name)
    planter.plant(place, str(command))
    place.around.ran()  # the pipes of planting itself
    if planter.trigger is None:
        assert planter.why
        return
    planter.trigger(place)
    assert place.around.ran() == [planter.name]
