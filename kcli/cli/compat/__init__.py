"""Command lines of Apache's tools, understood as they understand them: same words, tables and messages."""
