"""Reading a damaged bus file page by page, and making a new one of what is in it.

Nothing here changes the damaged file, or believes what stands in it. SQLite's own recovery is an
extension that its Python packages leave out, so the few hundred bytes of format that it takes are
read here.
"""
