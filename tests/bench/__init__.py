"""Measurements beside other clients, and long fuzz runs: run by hand, never as timed tests."""
