"""The command line: its frame, its rendering, its commands, run in process."""
