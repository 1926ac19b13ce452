"""The client: requests to the brokers of a cluster, over one connection per node, with metadata, backoff and routing.

`connect(config)` returns a `ConsumerNetworkClient`, which consumers, the producer and admin functions share. It holds a
`NetworkClient` (one connection per node, version negotiation, requests in flight) and a `Metadata` (brokers, topics,
leaders). `send` queues a request and returns a `RequestFuture`; `poll` drives the network and completes futures. On top
of it, `requests` sends one request or fans out over many nodes, with retries until a deadline, and `routing` finds the
leader of a partition and the coordinator of a group. `connection` has everything about one connection to one node.

`config` has the settings of all clients; `login` those that become a JAAS text. Texts reach it in three steps:
`properties` reads a file, `librdkafka` translates names, and `external_values.complete` takes values from config
providers, variables and the JAAS login file, in the process that connects.

Decisions and counts are in pure modules (`metadata`, `backoff`, `metrics`, most of `connection`); sockets and selectors
are only touched by `connection.network_client`.
Times are milliseconds; deadlines are times of the client's clock.

Threads: none of its own. Any thread may `send`, `poll` or `wakeup`; one lock protects everything below
`ConsumerNetworkClient`, and one permit decides which thread waits for the network, for all threads (`poll_permit` has
both). A future's listeners run in the thread that polls, without the lock. The heartbeat thread of a group member calls
`serve`, which completes only its own future, so that it never runs another thread's listeners.

Processes: a client belongs to the process that made it (`kcli.forks`). In a fork of that, `require_own_process` raises
ForkedClient, before any lock is taken, and `close` does nothing. The child has closed its copies of the sockets.

**Non-obvious**

- A connection is identified by node id, not by address. Bootstrap addresses have negative ids; when a broker advertises
  the same address, it takes over the connection. Coordinators have second ids of their own (see `structs.Node`), so
  that a heartbeat never waits for a fetch response on the same connection.
- A failure that concerns one key (partition, group, node) is an error in `Results.errors`. An exception means that no
  request could be sent: no broker is reachable, or the coordinator look-up failed. At the deadline, TimeoutExpired
  names the unreachable address and the reason.
- A request that changes something (`fan_out_changes`) is not simply repeated after a lost response: the state of the
  cluster is read first. OutcomeUnknown is the error of a change that was sent, not answered, and is not visible.
- `Settings.given` holds a `Secret` for each password and for unknown names, which may be misspelled ones. An error
  shows a wrong value only if it resembles what was asked for: it may be a password in the wrong place.
- A file is read as ISO-8859-1, as in Java, except the properties that only librdkafka has.
- Metadata is not requested at the start, and a topic is only requested after `add_topics` or `topics_metadata`.
- An unreachable address of a host name is not a failed node: all addresses are tried before the backoff starts.
- A broker responds in the order of the requests on a connection, so a response is matched to the oldest request. A
  response with a wrong correlation id or a body that cannot be decoded ends the connection: its requests fail with
  DisconnectedError as those of a lost connection do, and callers repeat them until their deadline. A response that
  lacks a requested key is an IncompleteResponse, which is retriable too.
- A received response has the principal of its connection, and so has a `Cluster`. `response.broker_error(code)` and
  `cluster.topic_error(name)` make errors that name it.
- `DisconnectedError.was_sent` tells a request that a broker may have carried out from one that never left completely.
- A retriable error that ends an operation was repeated until the deadline. A sequence of requests gives each half of
  the remaining time, so its caller repeats the sequence where the answer is necessary.
- ApiVersions is sent first on each connection. A broker that cannot decode our version responds in v0, and a broker
  whose response cannot be decoded is asked again in v0.
- A failed authentication (`AuthenticationError`) is not repeated: it fails the requests to its node at once, and a wait
  for metadata, for records or for room while no node is connected. The next call tries again after the backoff.
- SASL sessions with an end are renewed on their connection (KIP-368) before the next request, as Java does it.
- `connection.security` (TLS and SASL) imports ssl and hashlib, so it is only imported if security.protocol demands it.
- Messages are imported inside functions where a command may not need them: each import costs start-up time.
"""
