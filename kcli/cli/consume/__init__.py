"""The `kcli consume` family: read records and print them."""
