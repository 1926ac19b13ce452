"""The library for asyncio: `AsyncAdmin`, `AsyncConsumer`, `AsyncProducer`, thin faces over the clients of the library.

A face has the client, a `ClientThread` that runs its calls in order, and coroutine methods that wait for them. It has
no protocol, no settings and no documentation of its own: `threaded_client` makes the coroutine of a method, with its
parameters, types and docstring.

An `AsyncConsumer` has `Received` in addition: the records of the last poll, and how far the tasks have got with them. A
record of an `async for` costs no switch of threads; a poll costs one.

An `AsyncProducer` calls `Producer.send` in the loop if nothing has to be waited for, which is the usual case. Otherwise
the task waits, in the order of the calls, for what it lacks: the thread requests the metadata of a topic; the thread of
the producer itself reports room and the end of a flush after its passes (`SendLoop.noticing`).

Threads: everything of the client runs in its thread, and everything of the face in the event loop of the first call.
What both touch says so where it is defined.

**Non-obvious**

- A cancelled task is told at once. What its call does in the thread is decided by method: `reading` calls are ended by
  `wakeup`, `changing` calls go on, and the last call, of `close`, is waited for.
- A `wakeup` that ends nothing would end the next wait, of another task. The thread withdraws it after the call that it
  was meant for.
- A coroutine function of the user that the client calls back runs in the loop while the thread waits. The thread runs
  the calls of that callback, which a context variable recognizes, before all others: a commit in `on_revoked`.
- A poll that waits gives way to other calls, and goes on after them. Without that, a commit of another task would wait
  for records.
- The thread cannot know which records the tasks have got. So each call of the consumer begins with a look at `Received`
  and tells the subscription what is unread and what is in hand; and afterwards drops what the call has moved.
- `asyncio.wait_for` cancels a step of an iteration, not the iteration: it is a class, because a generator would end.
- The loop never waits for the turn of the `SendLoop`: a commit in the thread keeps it for a long time.
- A task that sends lets others run after 100 records, before the next one: afterwards, a cancellation would hide that
  the record is accepted. Sends of other tasks are not delayed, so that they keep their order.
- The thread is a daemon and refers to no face, so that a forgotten one is collected, warned about, and closed.
"""
