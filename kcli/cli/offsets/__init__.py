"""What the commands about committed offsets share: plans shown, carried out, and undone."""
