"""Security that client and broker share: key stores, TLS contexts, JAAS, and the SASL mechanisms from both sides.

`SecuritySettings` has Kafka's `ssl.*` and `sasl.*` properties; the client's configuration and the broker's listeners
are made of it. From these, `tls` makes an `ssl.SSLContext`, and `sasl` makes the exchange of one mechanism: a generator
that yields the bytes to send and receives the bytes of the other side. Nothing here opens a connection: `kcli.network`
has the transport, `kcli.client` and `kcli.broker` drive the exchanges.

**Non-obvious**

- `ssl`, `hashlib` and `cryptography` take tens of milliseconds to import, so modules import them where they are used.
- A password is a `kcli.secret.Secret`. Errors name the property, never its value, and no part of a JAAS text.
"""
