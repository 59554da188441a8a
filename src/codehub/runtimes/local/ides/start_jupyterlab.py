"""Start JupyterLab without what takes longest and nobody needs. Run as a script; knows nothing of CodeHub.

``jsonschema`` builds a grammar for international addresses when it is imported, if the package for it is there: more
than half of the CPU time of JupyterLab's start. It goes without where that package is missing, so it is told so.
Kernels and terminals are processes of their own, and have the package.
"""

import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

if __name__ == "__main__":
    from jupyterlab.labapp import main

    sys.exit(main())
