"""The content-addressed store of large payloads."""
