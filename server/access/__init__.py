"""The clients of the server: their tokens, their rights, and where they may come from."""
