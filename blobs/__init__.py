"""The content-addressed store of large payloads."""

from .store import CHUNK_BYTES, BlobStore

__all__ = ["CHUNK_BYTES", "BlobStore"]
