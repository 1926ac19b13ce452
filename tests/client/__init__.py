"""Stories about the client, told over memory and against real brokers."""
