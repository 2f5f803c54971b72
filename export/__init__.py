"""The log in other forms: `bus.jsonl`, its way through git, the archive, backups, pictures."""
