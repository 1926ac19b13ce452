"""Measurements beside other clients, and long fuzz and soak runs. Run by hand; README.md shows the results."""
