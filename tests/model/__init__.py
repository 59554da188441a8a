"""An exhaustive model of one workspace.

Everything that can happen to one workspace (its row, its container, volume, archives and storage job, a
leader, the leader it replaced, the Observer, a person, and faults) is cut into steps, and a breadth-first
search takes every step in every order. The decisions are not modelled: they are the product's own
``plan``, ``after_failure``, ``observe`` and ``home`` functions. What is modelled is the environment around them.

- ``state``: what exists. ``rules``: the safety rules, each of which the harness can switch off.
- ``decisions``: the product's functions, asked about a row of the model.
- ``leader``, ``runtime``: how a leader carries decisions out, one interruptible step at a time.
- ``environment``: the Observer, the storage job, the person, and faults.
- ``invariants``: what must hold in every state. ``search``: the search, and whether every state settles.

A frozen leader needs no event of its own: it is a leader whose next step is taken late, after another has
taken over. A killed one is a leader whose next step is never taken.
"""
