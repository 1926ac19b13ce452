"""What `kcli assignor` reads from its arguments and how it shows what would happen to a group."""
