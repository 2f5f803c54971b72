"""Text that is not UTF-8, stored by a program with its own SQL, blocks nobody."""

import json
import subprocess
import sys
from pathlib import Path

from ackbus import Bus, Exporter, Inbox

SCRIPT = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute(
    "INSERT INTO messages (id, ts_ms, from_agent, type, payload)"
    " VALUES ('x', 1, CAST(x'61ff' AS TEXT), 't', CAST(x'22ff22' AS TEXT))"
)
db.commit()
"""


def test_a_row_that_is_no_utf8_is_delivered_as_broken(bus: Bus, bus_dir: Path) -> None:
    """M-52, promise 5: it comes with decode_failed, and what is behind it comes too."""
    subprocess.run([sys.executable, "-c", SCRIPT, bus_dir / "bus.db"], check=True)
    bus.publish("note", "behind", from_agent="b")
    broken, behind = Inbox(bus, "c").poll()
    assert (broken.from_agent, broken.payload, broken.payload_error) == (
        "a\\xff",
        None,
        "decode_failed",
    )
    assert behind.payload == "behind"
    assert Exporter(bus).export_once() == 2
    lines = Path(bus.layout.jsonl).read_bytes().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2]
