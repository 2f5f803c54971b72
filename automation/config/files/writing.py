"""Values as YAML, for people."""

from __future__ import annotations

from io import StringIO

from ruamel.yaml import YAML

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def yaml_of(value: Any) -> str:
    """Return a JSON value as YAML, its keys in their order."""
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    written = StringIO()
    writer.dump(value, written)
    return written.getvalue()
