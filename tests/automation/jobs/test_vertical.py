"""From a request to a log: jobs of real plugins."""

from ackbus import Bus

from ..conftest import Folder
from ..running import OK, running

CONFIG = """
    plugin_roots: [plugins]
    plugins:
      echo: {enabled: true}
"""


def test_job_runs_and_is_logged(bus: Bus, folder: Folder) -> None:
    folder.write(config=CONFIG).plugin("echo", run=OK)
    with running(bus, folder.path) as service:
        job = service.ended(service.submit("echo"))
        assert (job.state, job.attempt) == ("succeeded", 1)
