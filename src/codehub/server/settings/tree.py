"""The settings tree: typed, read from the environment once, at the start.

Names, defaults and meanings are the ones of ``docs/operate/configuration.md``; a test compares the two.
Other packages receive the group they need (``settings.reconciler``), never the environment. A wrong value stops
the start: ``load_settings`` raises ``SettingsError`` with a sentence that names the variable.
"""

import ipaddress
import json
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import platformdirs
from pydantic import BeforeValidator, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from codehub.server.bind import Bind
from codehub.server.settings.coordinators import (
    CoordinatorSettings,
    GcSettings,
    LimitsSettings,
    ObserverSettings,
    ReconcilerSettings,
    TtlSettings,
)
from codehub.server.settings.docker import DockerGroup
from codehub.server.settings.kubernetes import KubernetesGroup
from codehub.server.settings.logs import LogSettings
from codehub.server.settings.ports import PortSettings
from codehub.server.settings.prices import PriceSettings
from codehub.server.settings.ssh import SshSettings
from codehub.server.settings.variables import (
    EnvironmentSource,
    Group,
    SettingsError,
    Variable,
    explain,
    list_variables,
    lower,
    variable,
)


class RuntimeKind(StrEnum):
    LOCAL = "local"
    DOCKER = "docker"
    KUBERNETES = "kubernetes"


class ProcessRole(StrEnum):
    """Role of one process. By default each replica has all roles."""

    API = "api"
    PROXY = "proxy"
    COORDINATORS = "coordinators"


class LocalSandbox(StrEnum):
    REQUIRED = "required"
    OFF = "off"


_ARCHIVE_SCHEMES = ("file", "s3", "gs", "az")


def _default_data_dir() -> Path:
    # root is a service here: its home is closed to the database's user.
    return Path("/var/lib/codehub") if os.geteuid() == 0 else platformdirs.user_data_path("codehub")


def _as_directory(value: object) -> Path:
    path = Path(str(value)).expanduser() if value else _default_data_dir()
    return Path(os.path.abspath(path))


def _with_scheme(url: SecretStr | None, *schemes: str) -> SecretStr | None:
    if url is not None and urlsplit(url.get_secret_value()).scheme not in schemes:
        raise ValueError(f"an address that begins with {schemes[0]}:// is needed")
    return url


def _sandbox_word(value: object) -> object:
    """Read ``auto`` as ``required``: a default of earlier versions, which some have written down."""
    lowered = lower(value)
    return LocalSandbox.REQUIRED if lowered == "auto" else lowered


class StorageSettings(Group):
    data_dir: Annotated[Path, BeforeValidator(_as_directory)] = variable(
        "CODEHUB_DATA_DIR",
        "",
        meaning="Directory of the embedded servers, volumes and archives",
        shown="~/.local/share/codehub; for root /var/lib/codehub",
        validate_default=True,
    )
    archive_url: str | None = variable(
        "ARCHIVE_URL",
        meaning="Where archives go: file:///directory or s3://bucket/prefix (with the usual AWS variables)",
        shown="file:// and the directory archives in CODEHUB_DATA_DIR",
    )
    archive_format: int = variable(
        "ARCHIVE_FORMAT",
        1,
        meaning="How homes are archived: 1 stores each as a whole, 2 only what changed. Both are always read",
        ge=1,
        le=2,
    )

    @field_validator("archive_url")
    @classmethod
    def _is_store(cls, value: str | None) -> str | None:
        if value is not None and urlsplit(value).scheme not in _ARCHIVE_SCHEMES:
            raise ValueError(f"an address that begins with one of {', '.join(_ARCHIVE_SCHEMES)}:// is needed")
        return value


class AdminSettings(Group):
    password: SecretStr | None = variable(
        "CODEHUB_ADMIN_PASSWORD",
        meaning="Password of the first user, admin; read only while there are no users",
        shown="made and printed once",
        secret=True,
    )


class DatabaseSettings(Group):
    url: SecretStr | None = variable(
        "DATABASE_URL",
        meaning="PostgreSQL 15 or newer, as postgresql://user:password@host:port/database",
        shown="embedded",
        secret=True,
    )

    @field_validator("url")
    @classmethod
    def _is_postgresql(cls, value: SecretStr | None) -> SecretStr | None:
        return _with_scheme(value, "postgresql", "postgres", "postgresql+asyncpg")


class RedisSettings(Group):
    url: SecretStr | None = variable(
        "REDIS_URL",
        meaning="Redis 6 or newer, as redis://, rediss:// or unix://",
        shown="embedded",
        secret=True,
    )
    channel_prefix: str = variable(
        "REDIS_CHANNEL_PREFIX",
        "",
        meaning="Stands before the name of every channel; one per installation on a shared Redis",
        shown="none",
    )
    channel_wake_prefix: str = variable(
        "REDIS_CHANNEL_WAKE_PREFIX",
        "codehub:wake",
        meaning="First part of the names of the channels that wake coordinators",
    )

    @field_validator("url")
    @classmethod
    def _is_redis(cls, value: SecretStr | None) -> SecretStr | None:
        return _with_scheme(value, "redis", "rediss", "unix")


class RuntimeSettings(Group):
    kind: Annotated[RuntimeKind, BeforeValidator(lower)] = variable(
        "CODEHUB_RUNTIME",
        RuntimeKind.LOCAL,
        meaning="Where workspaces run: local (processes here), docker or kubernetes",
    )
    default_image: str | None = variable(
        "CODEHUB_DEFAULT_IMAGE",
        meaning="What a workspace runs when nothing is said",
        shown="the first there is",
    )
    local_sandbox: Annotated[LocalSandbox, BeforeValidator(_sandbox_word)] = variable(
        "CODEHUB_LOCAL_SANDBOX",
        LocalSandbox.REQUIRED,
        meaning="Bubblewrap around local workspaces: required (CodeHub does not start without), or off (whoever "
        "has a workspace can take over CodeHub; refused unless CodeHub serves this machine alone)",
    )
    local_images: Mapping[str, str] | None = variable(
        "LOCAL_IMAGES",
        meaning="JSON object, name → command line for the local runtime, with {socket} or {port}, {home} and "
        "{base_path}",
        shown="JupyterLab and VS Code (code-server)",
    )
    ide_install: bool = variable(
        "CODEHUB_IDE_INSTALL",
        True,
        meaning="Install JupyterLab and VS Code at first use where they are missing",
    )

    @field_validator("local_images", mode="before")
    @classmethod
    def _parse_images(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            images = json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f"not JSON ({error.msg} at character {error.pos})") from error
        if not isinstance(images, dict) or not images:
            raise ValueError('a JSON object with at least one image is needed, as {"name": "command line"}')
        for name, command in images.items():
            if not name.strip() or not isinstance(command, str) or not command.strip():
                raise ValueError(f"image {name!r} needs a command line, as a string")
            if ("{socket}" in command) == ("{port}" in command):
                said = "uses both" if "{port}" in command else "uses neither of"
                raise ValueError(
                    f"the command line of image {name!r} {said} {{socket}} and {{port}}: "
                    "it must listen at exactly one of them, {socket} if it can"
                )
        return images


class HttpSettings(Group):
    bind: Annotated[Bind, BeforeValidator(Bind.parse)] = variable(
        "CODEHUB_BIND",
        "127.0.0.1:8000",
        meaning="Address and port to listen on",
        validate_default=True,
    )
    base_url: str | None = variable(
        "CODEHUB_BASE_URL",
        meaning="How people reach CodeHub, as https://codehub.example.org",
        shown="http:// and CODEHUB_BIND",
    )
    base_domain: str | None = variable(
        "CODEHUB_BASE_DOMAIN",
        meaning="Each workspace gets an origin of its own below it; without it they live under paths",
    )
    roles: frozenset[ProcessRole] = variable(
        "CODEHUB_ROLES",
        frozenset(ProcessRole),
        meaning="What this process does: api, proxy, coordinators, separated by commas",
        shown="all",
    )
    api_upstream: str | None = variable(
        "CODEHUB_API_UPSTREAM",
        meaning="Where a process with the proxy role alone finds the API: http://host:port or unix:///socket",
    )
    proxy_processes: int = variable(
        "CODEHUB_PROXY_PROCESSES", 1, meaning="Processes that share the work of the proxy", ge=1, le=64
    )
    trusted_proxies: frozenset[str] = variable(
        "CODEHUB_TRUSTED_PROXIES",
        frozenset(),
        meaning="Addresses or networks of front proxies whose X-Forwarded-For counts, separated by commas",
        shown="none",
    )
    tab_script: bool = variable(
        "CODEHUB_TAB_SCRIPT",
        True,
        meaning="Add a small script to IDEs' pages: it says when the workspace sleeps, and names the tab",
    )
    tab_script_except: frozenset[str] = variable(
        "CODEHUB_TAB_SCRIPT_EXCEPT",
        frozenset(),
        meaning="Images whose pages get no such script, separated by commas",
        shown="none",
    )

    @field_validator("roles", mode="before")
    @classmethod
    def _split_roles(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        names = {part.strip().lower() for part in value.split(",") if part.strip()}
        if names == {"all"}:
            return frozenset(ProcessRole)
        if unknown := names - set(ProcessRole):
            raise ValueError(
                f"no such role: {', '.join(sorted(unknown))}; there are {', '.join(ProcessRole)}"
            )
        if not names:
            raise ValueError(f"at least one role is needed: {', '.join(ProcessRole)}")
        return frozenset(ProcessRole(name) for name in names)

    @field_validator("tab_script_except", mode="before")
    @classmethod
    def _split_images(cls, value: object) -> object:
        return frozenset(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _split_addresses(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        addresses = {part.strip() for part in value.split(",") if part.strip()}
        for address in addresses:
            ipaddress.ip_network(address)  # its message names the value
        return frozenset(addresses)

    @field_validator("base_url", "api_upstream")
    @classmethod
    def _is_http(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        if info.field_name == "api_upstream" and value.startswith("unix:///"):
            return value
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("an address such as https://codehub.example.org is needed")
        return value.rstrip("/")

    @field_validator("base_domain")
    @classmethod
    def _is_domain(cls, value: str | None) -> str | None:
        if value is None:
            return None
        name = value.strip().strip(".").lower()
        if not name or any(c in name for c in "/ @?#*") or "://" in name:
            raise ValueError("a domain such as codehub.example.org or localhost:8000 is needed")
        return name


class Settings(BaseSettings):
    """The whole settings tree. Made by ``load_settings``, which explains wrong values."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    storage: StorageSettings
    database: DatabaseSettings
    redis: RedisSettings
    http: HttpSettings
    ssh: SshSettings
    ports: PortSettings
    admin: AdminSettings
    runtime: RuntimeSettings
    docker: DockerGroup
    kubernetes: KubernetesGroup
    coordinator: CoordinatorSettings
    observer: ObserverSettings
    reconciler: ReconcilerSettings
    ttl: TtlSettings
    gc: GcSettings
    limits: LimitsSettings
    prices: PriceSettings
    log: LogSettings

    @property
    def data_dir(self) -> Path:
        return self.storage.data_dir

    @property
    def archive_url(self) -> str:
        return self.storage.archive_url or (self.data_dir / "archives").as_uri()

    @property
    def base_url(self) -> str:
        """Public URL of CodeHub. Behind another proxy, CODEHUB_BASE_URL must be set."""
        return self.http.base_url or self.http.bind.url

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *others: PydanticBaseSettingsSource,
        **more: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # Only load_settings reads the environment, so that a test can pass a mapping instead.
        return (init_settings,)


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Load the settings from ``environ`` (default: the real one).

    Raises ``SettingsError``.
    """
    source = EnvironmentSource(Settings, os.environ if environ is None else environ)
    try:
        return Settings(**source())
    except ValidationError as error:
        raise SettingsError(explain(error, _BY_NAME)) from None


def all_variables() -> tuple[Variable, ...]:
    """Every environment variable, for help and documentation."""
    return tuple(list_variables(Settings))


_BY_NAME = {variable.name: variable for variable in all_variables()}
