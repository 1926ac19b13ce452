"""The views beside `records`."""
