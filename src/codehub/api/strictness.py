"""A parameter nobody knows is refused like an unknown field: ``?onwer=all`` must not list one's own."""

from fastapi import Request

from codehub.api.problems import Invalid

_KNOWN: dict[int, frozenset[str]] = {}


async def no_unknown_parameters(request: Request) -> None:
    if not request.scope["query_string"]:
        return
    known = _known_of(request.scope["route"])
    for name in request.query_params:
        if name not in known:
            raise Invalid(name, "there is no such parameter")


def _known_of(route: object) -> frozenset[str]:
    known = _KNOWN.get(id(route))
    if known is None:
        dependant = getattr(route, "dependant", None)
        known = frozenset(_names(dependant))
        _KNOWN[id(route)] = known
    return known


def _names(dependant: object) -> set[str]:
    names = {field.alias for field in getattr(dependant, "query_params", ())}
    for each in getattr(dependant, "dependencies", ()):
        names |= _names(each)
    return names
