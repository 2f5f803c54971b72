"""The statements about inboxes, ready to run."""

from __future__ import annotations

from ...schema.queries import Queries, fits_pattern

#: The types that a session broadcasts at its beginning and at its end. They are in no inbox.
STARTED, STOPPED = "agent_started", "agent_stopped"
SESSION_NEWS = (STARTED, STOPPED)

#: Parts that the statements about an inbox share: the position of its cursor, the replies that its
#: agent (?1) received by waiting for them, and whether it wants broadcasts of a type, or the reader
#: at hand those of the type ?2. And of sessions: the fields of `SessionName.parse`, the row of the
#: base name if the session holds it too, and whether the holder stays the same.
_PARTS = {
    "{cursor}": "ifnull((SELECT last_acked_seq FROM cursors WHERE agent_id = ?1), 0)",
    "{no_news}": " AND ".join(f"type <> {type!r}" for type in SESSION_NEWS),
    "{received}": "SELECT seq FROM received WHERE agent_id = ?1",
    "{wanted}": f"""((SELECT wants FROM cursors WHERE agent_id = ?1) IS NULL OR EXISTS (
     SELECT 1 FROM json_each((SELECT wants FROM cursors WHERE agent_id = ?1)) AS each
      WHERE {fits_pattern("messages.type", "each.value")}))""",
    "{wants_it}": f"""EXISTS (
     SELECT 1 FROM json_each(wants) AS each WHERE {fits_pattern("?2", "each.value")})""",
    "{session}": """sessions.name, sessions.base, sessions.number, sessions.process,
       sessions.connection, sessions.resume_id, sessions.begun_at_ms, sessions.until_ms""",
    "{first_of_session}": """sessions.number > 1 AND first.name = sessions.base
   AND first.process = sessions.process AND first.connection = sessions.connection""",
    "{next_revision}": "iif(revision BETWEEN 0 AND 9007199254740990, revision + 1, 0)",
    "{same_holder}": "(process, connection) IS (?4, ?5)",
}

SQL = Queries(beside=__file__, parts=_PARTS)
