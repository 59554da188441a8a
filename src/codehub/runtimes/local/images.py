"""Images of the local runtime: command lines; by default the IDEs on this machine.

An image of the local runtime is a command line with ``{socket}`` or ``{port}``, ``{home}`` and
``{base_path}``. One that uses ``{base_path}`` serves itself below that path, and the proxy leaves the path
alone; for others the proxy removes it.

A default image whose IDE is not on this machine has ``{ide}`` in place of where it will be installed.

Prefer a socket: only CodeHub's user can open it, while every account of the machine can connect to a loopback
port.
"""

import shlex
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import OnWait
from codehub.runtimes.local.ides.catalogue import (
    CODE_SERVER_COMMAND,
    JUPYTER_SETTINGS,
    JUPYTER_STARTER,
    JUPYTERLAB,
    JUPYTERLAB_COMMAND,
    PLACEHOLDER,
    VSCODE,
)
from codehub.runtimes.local.ides.installations import Installations

BASE_PATH_PLACEHOLDER = "{base_path}"
SOCKET_PLACEHOLDER = "{socket}"
PORT_PLACEHOLDER = "{port}"


def default_images(*, installable: bool = False) -> dict[str, str]:
    """Images of this machine: name → command line, best first.

    ``installable``: with the IDEs that are not found here and can be installed at their first use (``ides``).
    """
    images = {}
    python = shlex.quote(sys.executable) if find_spec("jupyterlab") is not None else None
    if python is not None or installable:
        images[JUPYTERLAB.name] = JUPYTERLAB_COMMAND.format(
            python=python or f"{PLACEHOLDER}/bin/python",
            starter=shlex.quote(str(JUPYTER_STARTER)),
            settings=shlex.quote(str(JUPYTER_SETTINGS)),
        )
    if (binary := shutil.which("code-server")) is not None:
        images[VSCODE.name] = CODE_SERVER_COMMAND.format(program=shlex.quote(binary))
    elif installable:
        program = f"{PLACEHOLDER}/bin/node {PLACEHOLDER}/code-server/out/node/entry.js"
        images[VSCODE.name] = CODE_SERVER_COMMAND.format(program=program)
    return images


async def find_command(
    images: Mapping[str, str], image_ref: str, ides: Installations, on_wait: OnWait
) -> str:
    """The command line of an image. Installs its IDE first if that is needed. Raises ``EffectError``."""
    template = images.get(image_ref)
    if template is None:
        raise EffectError(FailureCode.IMAGE_UNKNOWN, f"no image is called {image_ref!r}", known=list(images))
    if PLACEHOLDER not in template:
        return template
    return template.replace(PLACEHOLDER, shlex.quote(str(await ides.ensure(image_ref, on_wait))))


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
