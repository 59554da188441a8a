"""Print the OpenAPI document of the real application, without starting anything.

``create_app`` only keeps what it is given, so the document needs no database: it is the one a running
server gives out at ``/api/v1/openapi.json``. ``make api-types`` makes ``src/api/openapi.ts`` of it.
"""

import json
import sys
from typing import Any

from codehub.api.app import create_app
from codehub.api.dependencies import ApiDependencies, ApiSettings


class _NotUsed:
    """Stands for what answering requests would need."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the OpenAPI document must not depend on {name!r}")


def openapi_document() -> dict[str, Any]:
    unused: Any = _NotUsed()
    dependencies = ApiDependencies(
        settings=ApiSettings(base_url="http://codehub.invalid"),
        sessions=unused,
        read_sessions=unused,
        live=unused,
        runtime=unused,
        archives=unused,
        contents=unused,
        rate_limit=unused,
        passwords=unused,
        why_not_ready=unused,
        coordinator_health=unused,
    )
    return create_app(dependencies).openapi()


if __name__ == "__main__":
    json.dump(openapi_document(), sys.stdout, ensure_ascii=False)
