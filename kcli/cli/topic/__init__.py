"""The `kcli topic` family: list, describe, create and delete topics."""
