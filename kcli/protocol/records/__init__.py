"""Record batches, old and new, decoded jointly into columns and built from rows."""
