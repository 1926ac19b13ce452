"""Share groups (KIP-932): records that members acquire one by one, and accept, release or reject.

`ShareConsumer` is a member: it joins, acquires records from the leaders of its partitions, and acknowledges them.
`share_session` is pure: the requests of the session with one broker, and the ranges of an acknowledgement.

Threads: none. Heartbeats are sent while the caller polls.

**Non-obvious**

- The broker keeps the positions: there is no offset to commit or to seek. A member that does not acknowledge a record
  holds it until its lock ends (group.share.record.lock.duration.ms, 30 s), then another member gets it.
- Each delivery is counted. A record that was delivered group.share.delivery.count.limit times (5) is archived, so to
  release records is not free of consequences.
- Acknowledgements travel with the next ShareFetch to the same broker, or with the ShareAcknowledge that closes the
  session. Closing a session releases all other records that the member holds.
- The records of a response are whole batches of the log. Only the acquired offsets belong to the member; acquired
  offsets without a record (compacted, or a transaction marker) are acknowledged as gaps.
"""
