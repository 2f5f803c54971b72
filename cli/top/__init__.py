"""`bus top`: a live view of a bus, drawn again as it changes. Nothing here changes the bus."""
