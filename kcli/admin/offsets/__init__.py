"""Plans that move committed offsets: made from facts, previewed, applied, undone."""
