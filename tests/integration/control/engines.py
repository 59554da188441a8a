"""What workspaces of these tests run on: processes of this machine, or for some of the tests a real cluster, too.

On a cluster run the walk of a workspace, kills and freezes of the leader in each of its operations, and the failures
that look different there. The others are about the database, Redis and clocks, in which a runtime has no part.
"""

import pytest

ON_CLUSTER = (pytest.mark.needs_built_images, pytest.mark.timeout(1200))

on_both = pytest.mark.parametrize(
    "environment", ["local", pytest.param("kubernetes", marks=ON_CLUSTER)], indirect=True
)
