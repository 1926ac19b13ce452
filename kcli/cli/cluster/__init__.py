"""The `kcli cluster` family: describe the cluster and list API versions."""
