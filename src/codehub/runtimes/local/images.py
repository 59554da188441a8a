"""Images of the local runtime: command lines; by default the IDEs on this machine.

An image of the local runtime is a command line with ``{socket}`` or ``{port}``, ``{home}`` and
``{base_path}``. One that uses ``{base_path}`` serves itself below that path, and the proxy leaves the path
alone; for others the proxy removes it.

Prefer a socket: only CodeHub's user can open it, while every account of the machine can connect to a loopback
port.
"""

import shlex
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec

BASE_PATH_PLACEHOLDER = "{base_path}"
SOCKET_PLACEHOLDER = "{socket}"
PORT_PLACEHOLDER = "{port}"

# Neither token nor password: only CodeHub reaches its socket, and the proxy has signed the person in.
# The proxy also checks Origin, and passes the browser's Host, so Jupyter's own check of Origin against Host
# keeps working and needs no exception; "remote access" only means a Host that is not localhost.
_JUPYTERLAB = (
    "{python} -m jupyterlab --no-browser --ServerApp.sock={{socket}}"
    " --ServerApp.base_url={{base_path}} --ServerApp.root_dir={{home}}"
    " --IdentityProvider.token= --PasswordIdentityProvider.hashed_password="
    " --ServerApp.allow_remote_access=True --ServerApp.trust_xheaders=True"
    " --ServerApp.quit_button=False --allow-root"
)
_CODE_SERVER = (
    "{binary} --socket {{socket}} --socket-mode 600 --auth none --disable-telemetry --disable-update-check"
    " --disable-getting-started-override --disable-workspace-trust {{home}}"
)


def default_images() -> dict[str, str]:
    """Images found on this machine: name → command line, best first."""
    images = {}
    if find_spec("jupyterlab") is not None:
        images["jupyterlab"] = _JUPYTERLAB.format(python=shlex.quote(sys.executable))
    if (binary := shutil.which("code-server")) is not None:
        images["code-server"] = _CODE_SERVER.format(binary=shlex.quote(binary))
    return images


def uses_base_path(images: Mapping[str, str], image_ref: str) -> bool:
    """Whether this image serves below its base path. An unknown one does not."""
    return BASE_PATH_PLACEHOLDER in images.get(image_ref, "")


def uses_socket(command: str) -> bool:
    """Whether the command listens on a socket; otherwise on a port."""
    return SOCKET_PLACEHOLDER in command


def check_command(name: str, command: str) -> None:
    """Raise ``ValueError`` with a sentence for people if LOCAL_IMAGES is wrong."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"LOCAL_IMAGES: {name!r}: {error}") from error
    if not words:
        raise ValueError(f"LOCAL_IMAGES: {name!r} has no command")
    placeholders = [each for each in (SOCKET_PLACEHOLDER, PORT_PLACEHOLDER) if each in command]
    if not placeholders:
        raise ValueError(
            f"LOCAL_IMAGES: {name!r} uses neither {{socket}} nor {{port}}, so nobody could reach it"
        )
    if len(placeholders) > 1:
        raise ValueError(
            f"LOCAL_IMAGES: {name!r} uses both {{socket}} and {{port}}: CodeHub connects to one of them. "
            "Use {socket} if the program can listen on a Unix socket."
        )
