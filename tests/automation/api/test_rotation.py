"""Change of keys without a gap: the old and the new one count side by side for a while."""

import pytest

from ackbus import Bus

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK
from .serving import KEYS, api_of, problem

pytestmark = pytest.mark.slow

OLD, NEW = "ADMIN", "JOBS_RO"


def written(folder: Folder, *names: str) -> Folder:
    tokens = ", ".join(
        f'{{name: app-{name.lower()}, token: "${{{name}}}", scopes: ["jobs:ro"]}}' for name in names
    )
    return folder.write(
        config=f"""
        plugin_roots: [plugins]
        plugins: {{echo: {{enabled: true}}}}
        api: {{enabled: true, listen: "127.0.0.1:0", auth: {{tokens: [{tokens}]}}}}
        """
    )


@pytest.mark.requirement("Q-19")
def test_q_19_an_old_and_a_new_token_overlap_until_the_old_one_is_taken_out(
    bus: Bus, folder: Folder
) -> None:
    folder.plugin("echo", run=OK)
    with api_of(bus, written(folder, OLD)) as served:

        def reload(*names: str) -> None:
            written(folder, *names)
            served.running.service.reload()

        old, new = (served.client(KEYS[name]) for name in (OLD, NEW))
        assert old.get("/jobs").status_code == 200
        problem(new.get("/jobs"), 401, "unauthorized")
        reload(OLD, NEW)
        wait_until(lambda: new.get("/jobs").status_code == 200)
        assert old.get("/jobs").status_code == 200
        reload(NEW)
        wait_until(lambda: old.get("/jobs").status_code == 401)
        assert new.get("/jobs").status_code == 200
