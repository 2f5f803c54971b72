"""`bus.jsonl`: the exporter that keeps it, and the importer that reads it and its like."""

from .exporter import Exporter, ExporterRunning
from .field_map import FieldMap
from .importer import ImportReport, import_jsonl

__all__ = ["Exporter", "ExporterRunning", "FieldMap", "ImportReport", "import_jsonl"]
