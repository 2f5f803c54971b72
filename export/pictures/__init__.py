"""Pictures of traffic: records in, text out. Mermaid for graphs, SVG for the time line.

Nothing here reads a bus or writes a file: `Traffic.of` takes messages from wherever they were
read, and every drawing is a pure function. The same records give the same bytes.
"""

from .links import Links
from .mermaid import flowchart, sequence_diagram
from .timeline import Timeline
from .timeline_svg import timeline_svg
from .traffic import Arrow, Traffic
from .words import plain

__all__ = [
    "Arrow",
    "Links",
    "Timeline",
    "Traffic",
    "flowchart",
    "plain",
    "sequence_diagram",
    "timeline_svg",
]
