"""All events of a session, read by its pages."""

from collections.abc import Iterator

from ackbus.tasks.control.sessions import SessionEvent, Sessions


def replay(sessions: Sessions, session: str, after: int = 0) -> Iterator[SessionEvent]:
    upto = sessions.begin(session, after)
    while not (page := sessions.page(session, upto)).is_last:
        yield from page.events
        assert page.upto > upto
        upto = page.upto
    yield from page.events
