"""A node: a broker whose state comes from the metadata log of a controller, Apache Kafka's or kcli's own (KIP-631).

- `node.Node`: all of it, wired into the broker's loop.
- `lifecycle`: registration, fencing and controlled shutdown, as pure decisions; `heartbeats` sends them.
- `observer`: reads the metadata log into the image.
- `peers`: connections to the controller and to other brokers.

Handlers do not know whether the broker is a node: they read `Broker.cluster`. `alone.Alone` is in the place of `Node`
without a controller.

**Threads and ownership**: everything belongs to the broker's loop thread, and the connections to peers are in its
selector. Only the heartbeats have a thread and a blocking connection of their own, because a loop that is busy for
longer than the session would otherwise be fenced by the controller.
"""
