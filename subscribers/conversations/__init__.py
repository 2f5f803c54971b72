"""Questions and their answers: the types and the first answer of a conversation.

Nothing here waits or publishes: `requests.py`, beside this folder, does.
"""
