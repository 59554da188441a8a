"""Tell programs in workspaces how their ports are reached, by variables they know.

``VSCODE_PROXY_URI``: code-server and VS Code make links of it for ports they find, with ``{{port}}`` in it.
``__VITE_ADDITIONAL_SERVER_ALLOWED_HOSTS``: Vite refuses requests for hosts it does not know, and its hot reload with
them. JupyterLab has no such variable, and needs none. Set at a start: another address of CodeHub shows at the next one.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit
from uuid import UUID

from codehub.api.rendering import url_pattern


def port_environment(workspace_id: UUID, *, base_url: str, base_domain: str | None) -> Mapping[str, str]:
    """Variables about ports for one workspace."""
    pattern = url_pattern(base_url, base_domain)
    if base_domain is not None:
        at = pattern.format(id=f"{{{{port}}}}--{workspace_id}")
        host = "." + base_domain.partition(":")[0]
    else:
        at = f"{pattern.format(id=workspace_id)}port/{{{{port}}}}/"
        host = urlsplit(base_url).hostname or "localhost"
    return {"VSCODE_PROXY_URI": at, "__VITE_ADDITIONAL_SERVER_ALLOWED_HOSTS": host}
