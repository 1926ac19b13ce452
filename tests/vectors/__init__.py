"""Golden bytes, each with its origin."""
