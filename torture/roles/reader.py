"""A reader: takes its mail as it comes, and the rest before it ends."""

from __future__ import annotations

from ...bus.doorbell import listen
from .mail import Mail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .agent import Me

#: How long it waits for a ring of the doorbell, in seconds, and how long it thinks at most.
LOOK_AGAIN_S, THINK_S = 0.5, 0.05


def play(me: Me) -> None:
    """Read until it is over."""
    mail = Mail(me)
    with listen(me.bus) as listener:
        while True:
            ending = me.lifeline.ending  # looked at before the mail: what came until then is read
            if mail.take():
                me.pause(THINK_S)
            elif ending:
                return
            else:
                listener.wait(LOOK_AGAIN_S)
