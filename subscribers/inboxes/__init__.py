"""One agent's unread mail: polling, acknowledging, failed deliveries, and delivery loops."""
