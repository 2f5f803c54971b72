"""The door for agents: tools and resources of the Model Context Protocol, over stdio and HTTP.

Nothing here knows what a tool does: that is in `tools/`.
"""
