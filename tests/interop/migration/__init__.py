"""Programs of the documentation of other clients, rewritten with kcli from its own documentation."""
