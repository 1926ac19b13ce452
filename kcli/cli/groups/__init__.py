"""What the commands about groups share: which groups are meant, conditions, rows to show, plans to change them."""
