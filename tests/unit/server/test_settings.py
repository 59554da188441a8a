"""The settings tree: what the environment says, and what is said about a wrong one."""

from pathlib import Path

import pytest

from codehub.cli.settings import markdown_table
from codehub.server.bind import Bind
from codehub.server.settings.tree import ProcessRole, RuntimeKind, Settings, all_variables, load_settings
from codehub.server.settings.variables import SettingsError, list_values

DOCUMENT = Path(__file__).parents[3] / "docs" / "operate" / "configuration.md"


def refusal(**environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ)
    return str(caught.value)


def test_defaults_are_complete_and_frozen() -> None:
    settings = load_settings({})
    assert settings.http.bind == Bind("127.0.0.1", 8000)
    assert settings.base_url == "http://127.0.0.1:8000"
    assert settings.http.roles == frozenset(ProcessRole)
    assert settings.runtime.kind is RuntimeKind.LOCAL
    assert settings.reconciler.max_concurrent is None
    assert settings.archive_url == f"file://{settings.data_dir}/archives"
    assert settings.coordinator.node_id
    with pytest.raises(ValueError, match="frozen"):
        settings.reconciler.max_concurrent = 1


def test_only_the_given_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GC_DELAY", "1")
    assert load_settings({}).gc.delay == 7200
    assert load_settings().gc.delay == 1


def test_seconds_may_be_fractions() -> None:
    settings = load_settings({"OBSERVER_INTERVAL": "0.25", "TTL_STANDBY_SECONDS": "0.5"})
    assert settings.observer.interval == 0.25
    assert settings.ttl.standby_seconds == 1, "rounded up: 0 would mean never"


def test_an_empty_variable_is_not_set() -> None:
    assert load_settings({"DATABASE_URL": "", "CODEHUB_BIND": ""}) == load_settings({})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("all", set(ProcessRole)),
        ("api", {ProcessRole.API}),
        (" API , coordinators,", {ProcessRole.API, ProcessRole.COORDINATORS}),
    ],
)
def test_roles(written: str, meant: set[ProcessRole]) -> None:
    assert load_settings({"CODEHUB_ROLES": written}).http.roles == meant


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("0.0.0.0:80", "http://127.0.0.1:80"),
        (":80", "http://127.0.0.1:80"),
        ("[::1]:80", "http://[::1]:80"),
        ("[::]:80", "http://[::1]:80"),
        ("localhost:80", "http://localhost:80"),
    ],
)
def test_bind(written: str, url: str) -> None:
    assert load_settings({"CODEHUB_BIND": written}).base_url == url


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("CODEHUB_BIND", "8000", "127.0.0.1:8000"),
        ("CODEHUB_BIND", "::1:80", "brackets"),
        ("CODEHUB_BIND", "host:99999", "host:port"),
        ("CODEHUB_RUNTIME", "podman", "docker"),
        ("CODEHUB_ROLES", "cook", "coordinators"),
        ("CODEHUB_ROLES", ",", "at least one"),
        ("CODEHUB_BASE_URL", "codehub.example.org", "https://"),
        ("CODEHUB_BASE_DOMAIN", "https://x.org/", "domain"),
        ("ARCHIVE_URL", "/tmp/archives", "file"),
        ("RECONCILER_INTERVAL", "0", "greater than 0"),
        ("RECONCILER_INTERVAL", "nan", "finite"),
        ("RECONCILER_MAX_RETRIES", "1.5", "integer"),
        ("TTL_ARCHIVE_SECONDS", "never", "number of seconds"),
        ("LIMITS_MAX_RUNNING_PER_USER", "-1", "greater than or equal to 0"),
        ("LOCAL_IMAGES", "{", "not JSON"),
        ("LOCAL_IMAGES", "{}", "at least one image"),
        ("LOCAL_IMAGES", '{"a": ["b"]}', "'a'"),
        ("LOCAL_IMAGES", '{"a": "b"}', "neither of {socket} and {port}"),
        ("LOCAL_IMAGES", '{"a": "b {socket} {port}"}', "both {socket} and {port}"),
        ("LOG_LEVEL", "loud", "warning"),
        ("CODEHUB_KUBERNETES_IMAGES", "{", "not JSON"),
        ("CODEHUB_KUBERNETES_IMAGES", "{}", "at least one image"),
        ("CODEHUB_KUBERNETES_IMAGES", '{"a": {"port": 1}}', "'a' names no image"),
        ("CODEHUB_KUBERNETES_IMAGES", '{"a": {"image": "b", "port": true}}', "'a': port must be a port"),
        ("CODEHUB_KUBERNETES_IMAGES", '{"a": {"image": "b", "uid": 1}}', "unknown fields: uid"),
        ("CODEHUB_KUBERNETES_IMAGES", "/no/such/file", "cannot be read"),
        ("CODEHUB_KUBERNETES_USER", "0", "greater than or equal to 1"),
        ("CODEHUB_KUBERNETES_ACCESS_MODE", "Once", "ReadWriteOncePod"),
        ("CODEHUB_KUBERNETES_TOLERATIONS", "{}", "a JSON list is needed"),
        ("CODEHUB_KUBERNETES_NODE_SELECTOR", '{"a": 1}', "values are strings"),
        ("CODEHUB_KUBERNETES_POD_PATCH", "[]", "a JSON object"),
    ],
)
def test_a_wrong_value_is_named_and_shown(variable: str, value: str, words: str) -> None:
    said = refusal(**{variable: value})
    assert variable in said
    assert words in said
    assert "\n" not in said


def test_every_wrong_value_is_named() -> None:
    said = refusal(CODEHUB_BIND="x", GC_DELAY="y", LOG_LEVEL="z")
    assert [line.split("=")[0] for line in said.splitlines()] == ["CODEHUB_BIND", "GC_DELAY", "LOG_LEVEL"]


@pytest.mark.parametrize("variable", ["DATABASE_URL", "REDIS_URL"])
def test_a_secret_is_never_shown(variable: str) -> None:
    said = refusal(**{variable: "mysql://ann:s3cret@host"})
    assert variable in said
    assert "s3cret" not in said
    settings = load_settings({"CODEHUB_ADMIN_PASSWORD": "s3cret", "REDIS_URL": "redis://:s3cret@host"})
    assert "s3cret" not in repr(settings)


def test_secrets_come_from_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("postgresql://ann:s3cret@host/db\n")
    settings = load_settings({"DATABASE_URL_FILE": str(secret)})
    assert settings.database.url is not None
    assert settings.database.url.get_secret_value() == "postgresql://ann:s3cret@host/db"
    assert "both set" in refusal(DATABASE_URL="postgresql://x", DATABASE_URL_FILE=str(secret))
    assert "DATABASE_URL_FILE" in refusal(DATABASE_URL_FILE=str(tmp_path / "absent"))
    secret.write_text("mysql://ann:s3cret@host/db")
    assert "s3cret" not in refusal(DATABASE_URL_FILE=str(secret))


def test_groups_can_be_made_by_hand() -> None:
    settings = load_settings({})
    reconciler = type(settings.reconciler)(max_concurrent=1)
    assert settings.model_copy(update={"reconciler": reconciler}).reconciler.max_concurrent == 1


def test_the_documentation_lists_every_variable_with_its_default() -> None:
    assert markdown_table() in DOCUMENT.read_text(encoding="utf-8"), (
        "docs/operate/configuration.md is out of date: put in the output of `codehub settings --markdown`"
    )


def test_every_variable_has_a_meaning_and_a_name_of_its_own() -> None:
    variables = all_variables()
    assert all(variable.meaning for variable in variables)
    assert len({variable.name for variable in variables}) == len(variables)
    assert {variable.group for variable in variables} == set(Settings.model_fields)


def test_current_values_show_what_is_set_and_never_a_secret() -> None:
    settings = load_settings({"DATABASE_URL": "postgresql://u:hidden@db/x", "GC_DELAY": "60"})
    values = {each.variable.name: each for each in list_values(settings)}
    assert set(values) == {variable.name for variable in all_variables()}
    assert (values["GC_DELAY"].value, values["GC_DELAY"].changed) == ("60", True)
    assert (values["GC_INTERVAL"].value, values["GC_INTERVAL"].changed) == ("3600", False)
    assert (values["DATABASE_URL"].value, values["DATABASE_URL"].changed) == (None, True)
    assert not any("hidden" in str(each) for each in values.values())
