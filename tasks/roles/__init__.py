"""The roles that do something: workers, which have programs work on jobs, and planners.

Nothing here starts a role or keeps one running: a person does, or `crew/`.
"""
