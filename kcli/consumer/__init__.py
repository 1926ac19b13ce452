"""Reading records: subscriptions, positions, fetching."""
