"""The `kcli demo` command: an embedded broker, example data, and the main commands run on them.

`demo` is the command page with the list of steps, `cluster_demo` the one with a cluster, `steps` runs a step,
`own_broker` runs the broker or the cluster as child processes, and `fill` writes the orders and commits offsets for two
groups.

**Non-obvious**

- The broker is a process of its own, so that --keep can leave it running and a crash of the demo cannot corrupt its
  output.
- The steps run inside this process, through `app.run` with an `Environment` of their own, without the user's KCLI_
  variables.
- Ctrl-C during a step stops the demo, even if the step itself has already ended (`Environment.interrupted`).
- The orders are the same in every run, except for their timestamps.
"""
