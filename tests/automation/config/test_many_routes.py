"""A large configuration: each of its entries is there, and knows its line."""

from ..conftest import Folder


def test_2000_routes_of_an_included_file_know_their_lines(folder: Folder) -> None:
    routes = "".join(
        f"  - from: plugin-{n % 50}\n    event_type: some.event.{n}\n    to: target-{n % 40}\n"
        for n in range(2000)
    )
    folder.write(config="include: [routes.yaml]\n", routes=f"routes:\n{routes}")
    config = folder.load()
    assert len(config.routes) == 2000
    assert [route.place.line for route in config.routes] == list(range(2, 6002, 3))
