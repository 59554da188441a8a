"""Programs in a workspace are told where its ports are, with and without a base domain."""

from uuid import UUID

import pytest

from codehub.server.port_environment import port_environment

ID = UUID("0123abcd-0000-4000-8000-0123456789ab")


@pytest.mark.parametrize(
    ("base_url", "base_domain", "uri", "host"),
    [
        ("https://hub.example.org", "ws.example.org", f"https://{{{{port}}}}--{ID}.ws.example.org/", ".ws.example.org"),
        ("http://localhost:8000", "localhost:8000", f"http://{{{{port}}}}--{ID}.localhost:8000/", ".localhost"),
        ("https://hub.test:8443", None, f"https://hub.test:8443/w/{ID}/port/{{{{port}}}}/", "hub.test"),
    ],
)  # fmt: skip
def test_variables(base_url: str, base_domain: str | None, uri: str, host: str) -> None:
    made = port_environment(ID, base_url=base_url, base_domain=base_domain)
    assert made == {"VSCODE_PROXY_URI": uri, "__VITE_ADDITIONAL_SERVER_ALLOWED_HOSTS": host}
