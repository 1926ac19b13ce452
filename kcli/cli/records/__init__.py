"""Records on their way out: chosen, rendered, counted. Columns in, bytes out."""
