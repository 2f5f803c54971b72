"""Several recipients: a message for each of them, in one conversation."""

from __future__ import annotations

from copy import copy

from ..errors import InvalidInput
from .ids import new_id
from .names import check_recipient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .draft import Draft

#: The most recipients of one message: a broadcast, which is stored once, reaches more.
MAX_RECIPIENTS = 100


def for_each(draft: Draft, recipients: Iterable[str]) -> list[Draft]:
    """Return a draft for each recipient; see `Draft.to_each`."""
    names = list(recipients)
    for name in names:
        check_recipient(name)
    names = list(dict.fromkeys(names))
    if not names:
        raise InvalidInput("the list of recipients is empty: to reach everyone, name no recipient")
    if len(names) > MAX_RECIPIENTS:
        raise InvalidInput(
            f"{len(names)} recipients are more than {MAX_RECIPIENTS}: name none to reach everyone"
        )
    if draft.to_agent is not None:
        raise InvalidInput("a message has a recipient, or several, not both")
    first_id = draft.id or new_id()
    drafts = [copy(draft) for _ in names]
    for each, name in zip(drafts, names, strict=True):
        each.to_agent = name
        if each is drafts[0]:
            each.id = first_id
            continue
        each.id = draft.id and f"{draft.id}:{name}"
        if draft.in_reply_to is None:
            each.correlation_id = draft.correlation_id or first_id
    return drafts
