"""Questions and their answers: the types and the first answer of a conversation."""
