"""Queues: their policies, filling, claiming from them, and what people do with them."""
