"""Record batches: vectors, properties, hostile input."""
