"""`kcli group watch`: what is read off the groups again and again, and how it is shown."""
