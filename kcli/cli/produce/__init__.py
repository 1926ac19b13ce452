"""`kcli produce`: records from lines, delimited bytes or JSON."""
