"""What others said on the wire, read and written again."""
