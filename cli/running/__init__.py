"""Commands that run until they are told to stop, and publishing in bulk."""
