"""Decide whether local workspaces may run here: in a sandbox, or without one if a person said so.

Without a sandbox whoever has a workspace can read CodeHub's passwords and make themselves administrator, so CodeHub
does not start without. ``CODEHUB_LOCAL_SANDBOX=off`` is the one way around, and only where CodeHub serves this
machine alone. Used at the start (``main``, ``runtime_choice``) and by ``codehub doctor``.
"""

import os
import shutil
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import unquote, urlsplit

import platformdirs
import structlog

from codehub.runtimes.local.sandbox import find_bubblewrap
from codehub.runtimes.local.sandbox_check import NOT_INSTALLED
from codehub.server.settings.tree import LocalSandbox, RuntimeKind, Settings
from codehub.server.settings.variables import SettingsError

log = structlog.get_logger(__name__)

WITHOUT = "whoever has a workspace can read CodeHub's passwords and become its administrator"
OFF_FOR_OTHERS = (
    "CODEHUB_LOCAL_SANDBOX=off is for a CodeHub that serves this machine alone, and this one serves others "
    "(CODEHUB_BIND, CODEHUB_BASE_URL or CODEHUB_BASE_DOMAIN say so)"
)

_INSTALL = {
    "apt-get": "apt-get install bubblewrap",
    "dnf": "dnf install bubblewrap",
    "apk": "apk add bubblewrap",
    "zypper": "zypper install bubblewrap",
    "pacman": "pacman -S bubblewrap",
}
_SWITCHES = {
    # Kernel setting → (the value that forbids namespaces, the one that allows them).
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "user.max_user_namespaces": ("0", "15000"),
}


def require_sandbox(settings: Settings) -> None:
    """Refuse what can be told without trying: no bubblewrap, or ``off`` while others are served.

    Costs nothing, so that it comes before a database is made. Whether bubblewrap works, and what can be reached from
    inside, is tested by ``LocalRuntime.prepare``.
    """
    if settings.runtime.kind is not RuntimeKind.LOCAL:
        return
    if settings.runtime.local_sandbox is LocalSandbox.OFF:
        if serves_others(settings):
            raise SettingsError(f"{OFF_FOR_OTHERS}: {WITHOUT}. {mending_off()}")
        return
    if find_bubblewrap() is None:
        raise sandbox_refusal(NOT_INSTALLED)


def warn_without_sandbox(settings: Settings) -> None:
    """Say at the start what ``off`` means."""
    if settings.runtime.kind is RuntimeKind.LOCAL and settings.runtime.local_sandbox is LocalSandbox.OFF:
        log.warning(f"workspaces run without a sandbox: {WITHOUT}", setting="CODEHUB_LOCAL_SANDBOX=off")


def sandbox_refusal(reason: str) -> SettingsError:
    """The error of a start without a sandbox: why, what mends it, and the way without."""
    return SettingsError(
        f"CodeHub does not start: workspaces of the local runtime cannot be put into a sandbox: {reason}. "
        f"Without one, {WITHOUT}.\n{mending(reason)}\n"
        "Or run workspaces in containers: CODEHUB_RUNTIME=docker. Or, on a machine whose users you trust with all of "
        "it, go without: CODEHUB_LOCAL_SANDBOX=off."
    )


def mending(reason: str) -> str:
    """The command that mends it on this machine."""
    if reason == NOT_INSTALLED:
        return _how_to_install()
    if "Unexpected capabilities" in reason:
        return "Start CodeHub without capabilities of its own (AmbientCapabilities of its systemd unit)."
    if (switch := find_switch()) is not None:
        return f"Namespaces are switched off on this machine. Allow them: {_as_root(f'sysctl -w {switch}')}"
    return (
        "Let this user make namespaces; in a container, give it the right to (docker run --security-opt "
        "seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined)."
    )


def mending_off() -> str:
    """What to do instead of ``off`` where others are served."""
    install = "" if find_bubblewrap() else f" {_how_to_install()}"
    return f"Listen on 127.0.0.1 only, or remove the setting.{install}"


def find_switch(kernel: Path = Path("/proc/sys")) -> str | None:
    """The kernel setting that forbids namespaces, as it has to be: ``name=value``."""
    for name, (forbidding, allowing) in _SWITCHES.items():
        try:
            if (kernel / name.replace(".", "/")).read_text().strip() == forbidding:
                return f"{name}={allowing}"
        except OSError:
            continue
    return None


def private_directories(settings: Settings) -> tuple[Path, ...]:
    """CodeHub's directories outside its data directory, hidden from workspaces.

    Archives and login files.
    """
    login_files = platformdirs.user_config_path("codehub", appauthor=False)
    if settings.archive_url.startswith("file://"):
        return login_files, Path(unquote(urlsplit(settings.archive_url).path))
    return (login_files,)


def serves_others(settings: Settings) -> bool:
    """Whether people other than this machine's users could have a workspace here."""
    hosts = [settings.http.bind.host, urlsplit(settings.http.base_url or "").hostname or "localhost"]
    return settings.http.base_domain is not None or not all(_is_loopback(host) for host in hosts)


def _how_to_install() -> str:
    for program, command in _INSTALL.items():
        if shutil.which(program):
            return f"Install bubblewrap: {_as_root(command)}"
    return "Install the package bubblewrap of this machine's distribution."


def _as_root(command: str) -> str:
    return command if os.geteuid() == 0 else f"sudo {command}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
