"""The Hypothesis profile of this folder: the same examples in every run, no clock to fail on."""

import os

from hypothesis import HealthCheck, settings

from ..sizes import size

#: How many times as many examples as in CI are tried: `PROPERTY_RUNS=50 pytest tests/property`.
RUNS = int(os.environ.get("PROPERTY_RUNS", "1"))

# derandomize draws the examples from the test itself, so that a failure in CI is a failure here;
# print_blob adds the @reproduce_failure line that goes straight to it.
settings.register_profile(
    "ackbus",
    derandomize=True,
    print_blob=True,
    deadline=None,
    max_examples=size(sample=60, whole=200) * RUNS,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ackbus")
