"""Security of the broker: listeners, authentication of connections, credentials, and authorization.

- `listeners`: the listeners of `listeners` and `advertised.listeners`, with the properties of each one.
- `secured_connections.ListenerSecurity`: TLS and SASL of one listener; made at the start, unless it is PLAINTEXT.
- `authenticator.Authenticator`: the SASL state machine of one connection. Pure: frames in, decisions out.
- `credentials.Credentials`: SCRAM users. `delegation_tokens.DelegationTokens`: tokens (KIP-48).
- `authorizer.Authorizer`: ACLs and the decisions by them. Pure. Handlers ask `Broker.authorizer`; without ACLs that is
  `allow_all.AllowAll`.
- `image_security.ImageSecurity`: users, tokens and ACLs as the image of the metadata log has them.
- `principals`: principals from certificate names (`ssl.principal.mapping.rules`).

**Non-obvious**

- A broker without ACLs whose listeners are all PLAINTEXT imports nothing but `listeners` and `allow_all`, because
  start-up time is a feature.
- SCRAM users are stored as salt, StoredKey and ServerKey: no password can be read from the data directory.
- `Authorizer` remembers its decisions until an ACL changes. A waiting Fetch is not decided again, as in Apache Kafka;
  the next one is.

Tests: `test_users_and_tokens`, `test_image_security` and `test_hostile_handshakes` test several modules each.
"""
