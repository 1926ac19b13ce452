"""The `kcli group` family: list, describe, lag, watch, explain, wait, delete and remove-members."""
