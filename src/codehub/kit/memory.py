"""The collector of reference cycles, told what kind of process this is.

What a server has loaded when it is ready (modules, tables, routes: some hundred thousand objects) stays for
good, yet each full collection would look through all of it, and everything else waits meanwhile: some 70 ms.
"""

import gc

YOUNG = 50_000  # new objects before a look at them; the default of 700 is reached within one request


def settle() -> None:
    """Call it once, when the process is ready: from here on only what has come since is looked through."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
