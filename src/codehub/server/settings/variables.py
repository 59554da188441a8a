"""Read environment variables into settings: secrets in files, errors explained.

``tree.py`` holds the tree; this module holds what every variable has in common:

* ``variable()`` declares one: its name, default and meaning live in one place, so ``codehub settings``,
  the documentation and the program cannot disagree;
* ``EnvironmentSource`` reads them. For every secret ``X`` there is also ``X_FILE``, the path of a file that
  holds the value, as orchestrators mount them. An empty variable counts as not set;
* ``explain()`` turns a validation error into sentences for a person, without ever showing a secret.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from codehub.domain.errors import CodeHubError

FILE_SUFFIX = "_FILE"


class SettingsError(CodeHubError):
    """A setting has an unusable value. The message names it and says what is valid."""

    code = "bad_setting"


def _rounded_up(value: object) -> object:
    """Round seconds up: ``0.5`` must not become 0, which means "never"."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError("a number of seconds is needed") from None
    return math.ceil(value) if isinstance(value, float) and math.isfinite(value) else value


WholeSeconds = Annotated[int, BeforeValidator(_rounded_up)]
"""Seconds kept as a whole number (a column of the database); fractions are rounded up."""


def variable(
    name: str, default: Any = None, *, meaning: str, shown: str = "", secret: bool = False, **limits: Any
) -> Any:
    """Declare one environment variable.

    ``shown``: its default in words, where the value alone is not clear.
    """
    return Field(
        default=default,
        validation_alias=name,
        description=meaning,
        json_schema_extra={"shown": shown, "secret": secret},
        **limits,
    )


class Group(BaseModel):
    """A branch of the settings tree. ``Group(field=…)`` works too, for tests."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True, allow_inf_nan=False
    )


@dataclass(frozen=True)
class Variable:
    """Description of one environment variable, for help and documentation."""

    name: str
    default: str
    meaning: str
    secret: bool
    group: str


def list_variables(model: type[BaseModel], *, group: str = "") -> Iterator[Variable]:
    """Every variable of the tree, in the order of the tree."""
    for field_name, field in model.model_fields.items():
        nested = _nested_model(field)
        if nested is not None:
            yield from list_variables(nested, group=field_name)
            continue
        extra = _extra(field)
        yield Variable(
            name=str(field.validation_alias),
            default=str(extra["shown"]) or _as_text(field.default),
            meaning=field.description or "",
            secret=bool(extra["secret"]),
            group=group,
        )


@dataclass(frozen=True)
class CurrentValue:
    """The value a variable has in this process. ``value`` None: not set, or a secret, which is never shown."""

    variable: Variable
    value: str | None
    changed: bool  # it is not the default


def list_values(settings: BaseModel) -> Iterator[CurrentValue]:
    """The value of every variable, in the order of the tree. Secrets only say whether they are set."""
    values = iter(_values(settings))
    for variable, (value, default) in zip(list_variables(type(settings)), values, strict=True):
        hidden = variable.secret or value is None
        yield CurrentValue(variable, None if hidden else _as_text(value), changed=value != default)


def _values(settings: BaseModel) -> Iterator[tuple[object, object]]:
    for field_name, field in type(settings).model_fields.items():
        value = getattr(settings, field_name)
        if _nested_model(field) is not None:
            yield from _values(value)
        else:
            yield value, field.default


class EnvironmentSource(PydanticBaseSettingsSource):
    """Pydantic settings source: the variables of ``environ`` in the shape of the tree."""

    def __init__(self, settings_cls: type[BaseSettings], environ: Mapping[str, str]) -> None:
        super().__init__(settings_cls)
        self._environ = environ

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self._read(field), str(field.validation_alias), False

    def __call__(self) -> dict[str, Any]:
        return self._collect(self.settings_cls)

    def _collect(self, model: type[BaseModel]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for field_name, field in model.model_fields.items():
            nested = _nested_model(field)
            if nested is not None:
                found[field_name] = self._collect(nested)
            elif (value := self._read(field)) is not None:
                found[str(field.validation_alias)] = value
        return found

    def _read(self, field: FieldInfo) -> str | None:
        name = str(field.validation_alias)
        value = self._environ.get(name) or None
        path = self._environ.get(name + FILE_SUFFIX) if _extra(field)["secret"] else None
        if not path:
            return value
        if value is not None:
            raise SettingsError(f"{name} and {name}{FILE_SUFFIX} are both set: keep one of them.")
        try:
            return Path(path).read_text(encoding="utf-8").rstrip("\r\n") or None
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"{name}{FILE_SUFFIX}={path}: the file cannot be read ({error}). "
                "Make it readable for the user CodeHub runs as, or unset the variable."
            ) from error


def explain(error: ValidationError, variables: Mapping[str, Variable]) -> str:
    """Explain a validation error: one sentence per wrong variable.

    With its name, its value unless secret, and what is wrong with it.
    """
    sentences = []
    for problem in error.errors(include_url=False):
        name = next((str(part) for part in reversed(problem["loc"]) if str(part) in variables), None)
        if name is None:
            sentences.append(problem["msg"])
            continue
        shown = "(value not shown)" if variables[name].secret else repr(problem["input"])
        text = problem["msg"].removeprefix("Value error, ")
        sentences.append(f"{name}={shown}: {text[:1].lower()}{text[1:]}.".replace("..", "."))
    return "\n".join(sentences)


def _nested_model(field: FieldInfo) -> type[BaseModel] | None:
    annotation = field.annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return None


def _extra(field: FieldInfo) -> Mapping[str, Any]:
    extra = field.json_schema_extra
    assert isinstance(extra, dict), "every setting is declared with variable()"
    return extra


def _as_text(value: object) -> str:
    match value:
        case None:
            return "–"
        case float():
            return f"{value:g}"
        case list() | tuple() | dict():
            return json.dumps(value, default=str)
        case _:
            return str(value)


def lower(value: object) -> object:
    """Read a word without regard to case and spaces around it."""
    return value.strip().lower() if isinstance(value, str) else value
