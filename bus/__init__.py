"""The log and its archive, search, leases, reservations, heartbeats, the doorbell."""
