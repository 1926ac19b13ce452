"""`kcli group ...`."""
