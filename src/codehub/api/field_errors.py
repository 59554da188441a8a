"""Say what is wrong with a field of a request: in plain words, and by a code that clients translate.

The validator's own sentences speak of its types to programmers. Its names of errors change with its versions; ours are
part of the API.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from codehub.api.schemas.problems import FieldError

Context = Mapping[str, Any]
Rule = tuple[str, Callable[[Context], str], Sequence[str]]
"""Code, words, and which values of the validator's context are its parameters."""


def _fixed(code: str, words: str) -> Rule:
    return code, lambda _: words, ()


def _length(context: Context) -> str:
    least = context["min_length"]
    return "must not be empty" if least == 1 else f"at least {least} characters"


_TEXT = _fixed("not_text", "must be text")
_NUMBER = _fixed("not_a_number", "must be a whole number")
_BOOLEAN = _fixed("not_a_boolean", "must be true or false")
_ID = _fixed("not_an_id", "is no id")
_RULES: Mapping[str, Rule] = {
    "missing": _fixed("missing", "is missing"),
    "extra_forbidden": _fixed("unknown_field", "there is no such field"),
    "string_too_long": ("too_long", lambda c: f"at most {c['max_length']} characters", ("max_length",)),
    "string_too_short": ("too_short", _length, ("min_length",)),
    "greater_than_equal": ("too_small", lambda c: f"at least {c['ge']}", ("ge",)),
    "less_than_equal": ("too_big", lambda c: f"at most {c['le']}", ("le",)),
    "greater_than": ("not_above", lambda c: f"more than {c['gt']}", ("gt",)),
    "enum": ("not_a_choice", lambda c: f"one of: {c['expected']}", ("expected",)),
    "literal_error": ("not_a_choice", lambda c: f"one of: {c['expected']}", ("expected",)),
    "string_type": _TEXT,
    "string_unicode": _TEXT,
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_from_float", "int_parsing_size", "float_type", "float_parsing"),
        _NUMBER,
    ),
    **dict.fromkeys(("bool_type", "bool_parsing"), _BOOLEAN),
    **dict.fromkeys(("uuid_type", "uuid_parsing", "uuid_version", "string_pattern_mismatch"), _ID),
    **dict.fromkeys(
        ("model_type", "dict_type", "model_attributes_type"), _fixed("not_an_object", "must be an object")
    ),
    "too_long": ("too_many", lambda c: f"at most {c['max_length']}", ("max_length",)),
    "list_type": _fixed("not_a_list", "must be a list"),
    "json_invalid": _fixed("not_json", "is not JSON"),
    "control_characters": _fixed("control_characters", "control characters are not allowed"),
    "invisible_characters": _fixed("invisible_characters", "invisible characters are not allowed"),
    "tag_characters": _fixed("tag_characters", "no comma and no #"),
    "nothing_visible": _fixed("nothing_visible", "at least one visible character is needed"),
}


def describe(error: Mapping[str, Any]) -> FieldError:
    """Describe one error of the validator. What has no code of its own is ``not_valid``, in the validator's words."""
    field = field_of(error["loc"])
    context: Context = error.get("ctx") or {}
    rule = _RULES.get(error["type"])
    if rule is None:
        message = str(error["msg"]).removeprefix("Value error, ")
        return FieldError(field=field, message=message, code="not_valid", params={})
    code, words, names = rule
    return FieldError(
        field=field, message=words(context), code=code, params={name: context[name] for name in names}
    )


def field_of(location: Sequence[Any]) -> str:
    """Name a field: ``("body", "tags", 0)`` → ``tags.0``; unreadable body → ``body``."""
    parts = [str(part) for part in location]
    if len(parts) > 1 and parts[0] in {"body", "query", "path", "header"}:
        parts = parts[1:] if not (parts[0] == "body" and parts[1].isdigit()) else parts[:1]
    return ".".join(parts)
