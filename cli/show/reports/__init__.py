"""The reports at the end of long runs: demos and tortures."""
