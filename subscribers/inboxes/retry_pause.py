"""The pause before a message whose delivery failed is delivered again."""

#: By how much each failure of a message lengthens the pause, and the longest pause, in seconds:
#: meanwhile the messages behind it wait.
RETRY_FACTOR, RETRY_MAX_S = 2.0, 60.0

#: More doublings than lead from any sensible first pause to the longest one: a message that is
#: never parked may fail more often than a float can be doubled.
_MAX_DOUBLINGS = 64


def retry_pause_s(first_s: float, failures: int) -> float:
    """Return the pause in seconds after this many failures before the last one."""
    return min(first_s * RETRY_FACTOR ** min(failures, _MAX_DOUBLINGS), RETRY_MAX_S)
