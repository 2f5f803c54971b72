"""Finding a claim again by its token, for workers that are no process of ours and keep only that.

Nothing is held: whether the claim is still its worker's is checked where it is renewed or ended.
"""

from __future__ import annotations

from ...schema.message.message import delivered
from ..jobs.claims import Claim, Claims
from ..jobs.errors import ClaimNotFound
from ..jobs.jobs import Jobs
from .queue import Queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus


def claim_of(bus: Bus, token: int) -> tuple[Queue, Claim]:
    """Return the claim with a token, and its queue.

    Raises:
        ClaimNotFound: there never was one.
        SegmentMissing: its message is in a part of the archive that can't be read.
    """
    record = Claims.of(bus).get(token)
    if record is None:
        raise ClaimNotFound(f"there is no claim {token}; see 'bus job show'")
    queue = Queue.open(bus, record.queue)
    job = Jobs.of(bus).get(queue.info, record.seq)
    message = bus.log.at(record.seq)
    assert message is not None  # the log keeps every message, and claims are on messages
    delivered(message, record.attempt, token)
    return queue, Claim(
        queue=record.queue,
        message=message,
        token=token,
        attempt=record.attempt,
        max_attempts=job.max_attempts,
        dedupe_key=job.dedupe_key,
        group=record.group,
        instance=record.instance,
        claimed_at_ms=record.claimed_at_ms,
        lease_until_ms=record.lease_until_ms,
    )
