"""The controller of a cluster: one voter, no quorum. For laptops and tests, not for production.

A node sends its requests to the controller; clients' requests that change the cluster reach it in an Envelope. Each
becomes a decision: records for the metadata log, and a response. The server appends the records as one batch to the
log, replays them to the controller, and then answers.

- `controller.Controller`: the decisions. It is pure: it has a `MetadataImage` and settings, but no files, sockets or
  clock.
- `registrations.Registrations`: the brokers' sessions, which are not in the log: a broker is fenced when its heartbeats
  stop.
- `controller_server.ControllerServer`: the process, with its loop, its listener and its own table of APIs.
- `quorum.Quorum`: the log as brokers read it, and the fetches that wait for its next record.
- The decisions themselves, and the log on the disk, are in `kcli.broker.cluster`.

**Non-obvious**

- The image changes only by `Controller.replay`. A decision whose records were not appended has changed nothing.
- The epoch of a broker is the next offset of the log when it registers, so image.offset must follow every record of the
  log, control records too.
- The only voter commits what it has appended, so the high watermark is the end of the log, and no NoOpRecord is needed.
- After a restart each unfenced broker gets a new session, because the sessions of before are lost.
- A broker alone makes the same decisions by the same `Controller`: see `kcli.broker.alone`.
"""
