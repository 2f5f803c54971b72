"""The Hypothesis profile of this folder: that of all tests, with a number of examples."""

import os

from hypothesis import settings

from ..sizes import size

#: How many times as many examples as in CI are tried: `PROPERTY_RUNS=50 pytest tests/property`.
RUNS = int(os.environ.get("PROPERTY_RUNS", "1"))

settings.register_profile(
    "property", settings.get_profile("ackbus"), max_examples=size(sample=40, whole=200) * RUNS
)
settings.load_profile("property")
