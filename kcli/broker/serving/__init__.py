"""Serving of a broker or a controller: connections, requests, time and the one loop that owns everything.

- `server.SocketServer`: from the selector to the handlers and back. `server_loop.ServerLoop`: the loop of a process.
- `request_context.RequestContext`: who asks, in which version. `pending.Pending`: an answer that comes later.
- `timer.Timer`: what is due. `calls`: functions from other threads, which the loop calls. `loop_thread`: a loop in a
  thread. `long_work`: work that pauses, so that other clients are served.
- `idle_fetch`: the fetches of idle consumers, most of which are never decoded. `connection_quotas`: how many
  connections an address may have. `client_address`: an address in Kafka's notation.

Tests: `test_server` tests connections and their loop, `tests/broker/test_broker.py` the calls and the threads.
"""
