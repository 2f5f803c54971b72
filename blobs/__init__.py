"""Large payloads, each a file named by its hash. Nothing here reads or writes the database."""
