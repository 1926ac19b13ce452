"""The administrative library against a client that answers from a script."""
