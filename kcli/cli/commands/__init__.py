"""One module per command: a page each."""
