"""The whole control plane in one event loop with virtual time, and everything that can go wrong, by seed.

Real: ``Leadership``, the loop, Observer, Reconciler and its worker, TTL manager, archive GC, event listener,
services and rules, put together by ``build_control_plane``, three times. Simulated: what they stand on.

- ``loop``: virtual time; processes that can be killed and frozen. ``chaos``: faults at every await.
- ``store``: the ``ControlStore`` they are given; ``queries*`` say what its functions do.
- ``database``, ``connection``, ``rows``: PostgreSQL, from a statement down. ``determinism``: clocks, randomness.
- ``runtime``, ``stores``: containers, volumes, storage jobs, archives, hints, live events, activity.
- ``person``, ``events``: who wants things, and what happens by itself.
- ``guard``: the invariants. ``simulation``: a run. ``bugs``: planted ones, which some seed must find.

``make simulate SEEDS=0-999`` runs many; ``make simulate SEEDS=123`` runs one and prints what happened.
"""
