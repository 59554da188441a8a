"""What belongs into the package and is not in git: the dashboard, ``inside`` and the proxy's relay.

The dashboard is built by ``make web``. Whoever installs a package needs no Node, so one without the dashboard
would stay without: building it fails and says what to do. An editable installation finds it when it is built.

``inside`` (SSH) is built by ``make inside`` and is in the package if it was built; a release insists on it.

The relay (``proxy/upstream/relay.c``) is built here, where there is a C compiler. CodeHub works without it, a little
slower: so nothing that goes wrong there stops an installation. ``codehub doctor`` says whether it was built.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src/codehub/proxy/upstream/relay.c")
LIBRARY = SOURCE.with_name("_relay.so")
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-pthread")


DASHBOARD = Path("src/codehub/api/static/index.html")
NO_DASHBOARD = (
    "The dashboard is not built, and the package would be without it. Run `make web` first (needs Node.js)."
)


class PackageHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable" and not (Path(self.root) / DASHBOARD).is_file():
            self.app.abort(NO_DASHBOARD)
        if self.target_name != "wheel":
            return
        if build(Path(self.root)) and version != "editable":
            build_data["artifacts"].append(str(LIBRARY))
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"], build_data["tag"] = False, f"py3-none-{platform}"


def build(root: Path) -> bool:
    library = root / LIBRARY
    library.unlink(missing_ok=True)  # one of another source would be worse than none
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if sys.platform != "linux" or shutil.which(compiler[0]) is None:
        return False
    # Under another name first: a proxy that runs has the old one mapped.
    unfinished = library.with_suffix(".tmp")
    command = [*compiler, *FLAGS, str(root / SOURCE), "-o", str(unfinished)]
    try:
        subprocess.run(command, check=True)
        unfinished.rename(library)
    except (OSError, subprocess.CalledProcessError) as error:
        unfinished.unlink(missing_ok=True)
        sys.stderr.write(f"the relay is not built: {error}\n")
        return False
    return True
