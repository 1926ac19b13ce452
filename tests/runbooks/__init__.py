"""Scripts as operators write them, over kcli's exit statuses alone; run by tests/interop/test_runbooks.py."""
