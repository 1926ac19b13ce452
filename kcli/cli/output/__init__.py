"""Rendering shared by all commands: reports as tables, JSON, CSV and TSV, escapes, and the progress bar."""
