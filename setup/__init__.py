"""`bus setup`: changes to the configuration of coding agents' programs."""
