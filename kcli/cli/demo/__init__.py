"""What `kcli demo` shows: a shop's orders, groups that read them, and the commands that tell about them."""
