"""The controller of a cluster: one voter, no quorum. For laptops and tests, not for production.

A node sends its requests to the controller; clients' requests that change the cluster reach it in an Envelope. Each
becomes a decision: records for the metadata log, and a response. The server appends the records as one batch to the
log, replays them to the controller, and then answers.

- `controller.Controller`: the decisions. It is pure: it has a `MetadataImage` and settings, but no files, sockets or
  clock.
- `draft.Draft`: the records of one decision and the image as it will be with them. A decision has all its records or
  none.
- `registrations.Registrations`: the brokers' sessions, which are not in the log: a broker is fenced when its heartbeats
  stop.
- `controller_server.ControllerServer`: the process, with its loop, its listener and its own table of APIs.
- `journal.Journal`: the log on the disk, with everything applied that is in it.
- `metadata_log.MetadataLog`: __cluster_metadata-0 and its snapshots, in files that Apache Kafka reads and continues.
- `quorum.Quorum`: the log as brokers read it, and the fetches that wait for its next record.
- `elections`: which replica leads a partition, and which are in its ISR and ELR.

**Non-obvious**

- The image changes only by `Controller.replay`. A decision whose records were not appended has changed nothing.
- The epoch of a broker is the next offset of the log when it registers, so image.offset must follow every record of the
  log, control records too.
- The only voter commits what it has appended, so the high watermark is the end of the log, and no NoOpRecord is needed.
- After a restart each unfenced broker gets a new session, because the sessions of before are lost.
- A broker alone makes the same decisions by the same `Controller`, and has the same `journal.Journal`: see `alone`. The
  handlers of CreateTopics and others get `parts.Parts`, made of a draft.
"""
