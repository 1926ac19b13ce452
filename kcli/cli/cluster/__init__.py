"""The `kcli cluster` family: describe and check the cluster and its brokers, and show their API versions.

`describe` and `api_versions` are one page each; `kcli.admin.cluster` does the requests. `check` shows the findings of
`kcli.admin.health`.

**Non-obvious**

- A cluster without DescribeCluster (before Kafka 2.8) is described from its metadata; `fenced` is then unknown (-), not
  false.
- The failure of one broker is a row of `api-versions`; the other brokers are shown.
"""
