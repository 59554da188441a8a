"""Redis and NOTIFY: hints, live events, activity.

Losing any of it makes CodeHub late, never wrong.
"""
