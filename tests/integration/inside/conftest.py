from pathlib import Path

import pytest

from tests.support.openssh import OpenSsh, configure
from tests.support.requirements import require_inside, require_program


@pytest.fixture
def openssh(tmp_path: Path) -> OpenSsh:
    require_program("ssh", package="openssh-client")
    return configure(tmp_path, [str(require_inside())])
