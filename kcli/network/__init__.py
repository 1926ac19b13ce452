"""Network: frames, connections and the selector. Bytes on sockets; no Kafka requests.

`Selector` drives many connections from one thread: `poll` does all I/O and leaves its results in attributes. A
`KafkaChannel` is one connection: it sends and receives one frame at a time in each direction, and holds the state of
connecting and of the handshake. A `Transport` is the byte stream below a channel: `PlainTransport` for TCP and
`TlsTransport` for TLS. `FrameReader` cuts frames out of the stream with bounded memory.
`FileSlice` is a part of a frame that the operating system sends from a file.

Threads and ownership: one thread owns a selector with all its channels; only `Selector.wakeup` is thread-safe. Received
frames belong to the caller, who may free them on any thread. The client and the broker have a selector each.

**Non-obvious**

- A frame length is only a declaration: the buffer grows with the received bytes, so a hostile length allocates little.
- A receive budget counts a frame until it is freed, not until it is complete. Connections without budget are not read,
  which lets TCP slow the sender down.
- At most one frame per connection and poll is received, and reads and writes per call are bounded, so that a fast peer
  cannot starve the others.
- `read_needs` and `write_needs` of a transport are not always read and write: TLS may have to write in order to read.
- `mute` does not change the poller: during a long poll nothing arrives, and two system calls per request are saved.
- `half_duplex` is for the broker, which handles one request per connection at a time, as Kafka's does.
- A forked child closes its copies of all descriptors right after the fork, without `unregister`, which would act on the
  epoll that it shares with its parent, and without the closing alert of TLS.
- A wait ends within a second, because a signal just before the system call would otherwise not be handled.
- A client socket may connect to itself when the kernel picks the target port as the source port; `finish_connect`
  treats that as a refused connection.
- Single bytes of a frame length do not count as activity, so they do not keep a connection from expiring.
"""
