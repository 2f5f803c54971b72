"""Pictures of traffic: records in, text out. Mermaid for graphs, SVG for the time line.

Nothing here reads a bus or writes a file: `Traffic.of` takes messages from wherever they were
read, and every drawing is a pure function. The same records give the same bytes.
"""

from .timeline import Timeline, timeline_svg
from .traffic import Arrow, Links, Traffic, flowchart, plain, sequence_diagram

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
