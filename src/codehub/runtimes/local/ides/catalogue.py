"""The IDEs that can be installed: what they are called, their pinned versions and their command lines.

Everything is checked when it is fetched: Python packages by the hashes of the ``.txt`` files beside this module, npm
packages by the checksums of their lock files, which are in the one archive whose checksum is here. No install script
runs, and nothing is compiled. To upgrade: change the version and checksum here, ``requirements/ide-*.in``, and run
``make lock``.
"""

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PLACEHOLDER = "{ide}"
"""Stands in a command line for the directory of the installation."""

CODE_SERVER = "4.139.1"
CODE_SERVER_SHA512 = (
    "fUYvJVdz4ZoVJfakGiGWXFMpF8K1ObsrpGvX17ZxNpKOzdNHs7lANT670JTr4ZhA8DnWqyvvmFG/d3HV9Yy6ew=="
)

JUPYTER_SETTINGS = HERE / "jupyter_settings"
JUPYTER_STARTER = HERE / "start_jupyterlab.py"

# Neither token nor password: only CodeHub reaches its socket, and the proxy has signed the person in.
# The proxy also checks Origin, and passes the browser's Host, so Jupyter's own check of Origin against Host
# keeps working and needs no exception; "remote access" only means a Host that is not localhost.
JUPYTERLAB_COMMAND = (
    "{python} {starter} --no-browser --ServerApp.sock={{socket}}"
    " --ServerApp.base_url={{base_path}} --ServerApp.root_dir={{home}}"
    " --IdentityProvider.token= --PasswordIdentityProvider.hashed_password="
    " --ServerApp.allow_remote_access=True --ServerApp.trust_xheaders=True"
    " --ServerApp.quit_button=False --allow-root --LabApp.app_settings_dir={settings}"
)
CODE_SERVER_COMMAND = (
    "{program} --socket {{socket}} --socket-mode 600 --auth none --disable-telemetry --disable-update-check"
    " --disable-getting-started-override --disable-workspace-trust {{home}}"
)


@dataclass(frozen=True)
class Ide:
    """One IDE that can be installed. ``name`` is its image's; sizes are about right, for people."""

    name: str
    title: str
    version: str
    requirements: Path
    fetched_mb: int
    disk_mb: int
    words: tuple[str, ...]
    """Other words for it on a command line."""


def _locked_version(package: str, requirements: Path) -> str:
    found = re.search(rf"^{package}==(\S+)", requirements.read_text(), re.M)
    if found is None:
        raise ValueError(f"{requirements.name} does not name {package}")
    return found[1]


VSCODE = Ide(
    name="code-server",
    title="VS Code",
    version=CODE_SERVER,
    requirements=HERE / "vscode.txt",
    fetched_mb=260,
    disk_mb=850,
    words=("vscode", "code"),
)
JUPYTERLAB = Ide(
    name="jupyterlab",
    title="JupyterLab",
    version=_locked_version("jupyterlab", HERE / "jupyterlab.txt"),
    requirements=HERE / "jupyterlab.txt",
    fetched_mb=40,
    disk_mb=200,
    words=("jupyter", "lab"),
)
CATALOGUE = {ide.name: ide for ide in (JUPYTERLAB, VSCODE)}


def find_ide(word: str) -> Ide | None:
    """The IDE a person means by this word."""
    lowered = word.lower()
    return next((ide for ide in CATALOGUE.values() if lowered in (ide.name, *ide.words)), None)
