"""Groups looked at from outside: nothing here can join one, and only `deletion` changes anything."""
