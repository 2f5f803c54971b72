"""Pictures of traffic: records in, text out. Mermaid for documents, SVG made without a browser.

Nothing here reads a bus or writes a file: `Traffic.of` takes messages from wherever they were
read, and every drawing is a pure function. The same records give the same bytes.
"""

from .links import Links
from .links_svg import links_svg
from .mermaid import flowchart, sequence_diagram
from .sequence_svg import sequence_svg
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
    "links_svg",
    "plain",
    "sequence_diagram",
    "sequence_svg",
    "timeline_svg",
]
