"""What is wrong with a field is said in plain words and by a code; the validator's own sentences reach nobody."""

from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from codehub.api.field_errors import describe, field_of
from codehub.api.schemas.fields import Name, NewPassword
from codehub.domain.states import Role


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Name = "fine"
    secret: NewPassword = "long enough"
    seconds: Annotated[int, Field(ge=0, le=60, strict=True)] = 1
    role: Role = Role.USER
    on: Annotated[bool, Field(strict=True)] = True
    id: UUID = UUID(int=0)
    needed: int


def errors_of(**values: Any) -> list[tuple[str, str, str, dict[str, Any]]]:
    try:
        Form(**values)
    except ValidationError as error:
        found = [describe({**each, "loc": ("body", *each["loc"])}) for each in error.errors()]
        return [(each.field, each.code, each.message, dict(each.params)) for each in found]
    return []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"name": "x" * 65}, ("name", "too_long", "at most 64 characters", {"max_length": 64})),
        ({"name": " "}, ("name", "too_short", "must not be empty", {"min_length": 1})),
        ({"name": 7}, ("name", "not_text", "must be text", {})),
        ({"name": "a\x07b"}, ("name", "control_characters", "control characters are not allowed", {})),
        ({"name": "a\u200bb"}, ("name", "invisible_characters", "invisible characters are not allowed", {})),
        ({"secret": "short"}, ("secret", "too_short", "at least 8 characters", {"min_length": 8})),
        ({"seconds": -1}, ("seconds", "too_small", "at least 0", {"ge": 0})),
        ({"seconds": 61}, ("seconds", "too_big", "at most 60", {"le": 60})),
        ({"seconds": "ten"}, ("seconds", "not_a_number", "must be a whole number", {})),
        ({"role": "king"}, ("role", "not_a_choice", "one of: 'admin' or 'user'", None)),
        ({"on": 1}, ("on", "not_a_boolean", "must be true or false", {})),
        ({"id": "x"}, ("id", "not_an_id", "is no id", {})),
        ({"more": 1}, ("more", "unknown_field", "there is no such field", {})),
    ],
)
def test_each_mistake_has_its_words(values: dict[str, Any], expected: tuple[Any, ...]) -> None:
    ((field, code, message, params),) = errors_of(needed=1, **values)
    if code == "not_a_choice":
        assert set(message.removeprefix("one of: ").replace(" or ", ", ").split(", ")) == {
            "'admin'",
            "'user'",
        }
        return
    assert (field, code, message, params) == expected


def test_what_is_missing_is_said() -> None:
    assert errors_of() == [("needed", "missing", "is missing", {})]


def test_an_error_nobody_knows_keeps_its_sentence() -> None:
    error = {"type": "value_error", "loc": ("body", "x"), "msg": "Value error, not on Sundays"}
    found = describe(error)
    assert (found.code, found.message) == ("not_valid", "not on Sundays")


@pytest.mark.parametrize(
    ("location", "name"),
    [
        (("body", "tags", 0), "tags.0"),
        (("body",), "body"),
        (("body", 12), "body"),
        (("query", "limit"), "limit"),
    ],
)
def test_names_of_fields(location: tuple[Any, ...], name: str) -> None:
    assert field_of(location) == name
