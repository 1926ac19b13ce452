"""One module per API: its honesty first, then `handle(broker, request, context)`."""
