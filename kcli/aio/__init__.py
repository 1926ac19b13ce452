"""The library for asyncio: `AsyncAdmin`, `AsyncConsumer`, `AsyncProducer`, thin faces over the clients of the library.

A face has the client, a `ClientThread` that runs its calls in order, and coroutine methods that wait for them. It has
no protocol, no settings and no documentation of its own: `threaded_client` makes the coroutine of a method, with its
parameters, types and docstring.

Threads: everything of the client runs in its thread, and everything of the face in the event loop of the first call.
What both touch says so where it is defined.

**Non-obvious**

- A cancelled task is told at once. What its call does in the thread is decided by method: `reading` calls are ended by
  `wakeup`, `changing` calls go on, and the last call, of `close`, is waited for.
- A `wakeup` that ends nothing would end the next wait, of another task. The thread withdraws it after the call that it
  was meant for.
- A coroutine function of the user that the client calls back runs in the loop while the thread waits. The thread runs
  the calls of that callback, which a context variable recognizes, before all others: a commit in `on_revoked`.
- The thread is a daemon and refers to no face, so that a forgotten one is collected, warned about, and closed.
"""
