"""The site of a test of plugins."""

from collections.abc import Iterator

import pytest

from .web import Site, serving


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site
