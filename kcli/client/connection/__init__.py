"""The connections of a client, one per node: from the first address to the last request in flight.

`network_client.NetworkClient` owns them: `connections` opens and names them, `connection_states` is the state of each,
`api_versions` and `authentication` are the handshakes of a new one, `security` has their TLS and SASL (`oauth` fetches
its tokens), `in_flight` the requests that are not answered yet. `connection_faults` explains why one is silent, lost or
refused; `connection_check` connects step by step and shows where it stops.

All but `network_client`, `connection_check` and `oauth` are pure or do no I/O of their own. Threads and the notes on
connections are in the note of `kcli.client`.
"""
