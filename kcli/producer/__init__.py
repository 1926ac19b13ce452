"""A small producer: what demos, tests and `kcli produce` need."""
