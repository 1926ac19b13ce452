"""`kcli broker run`: the embedded broker as a process."""
