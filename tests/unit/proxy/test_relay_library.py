"""The C relay is optional: whatever is wrong with its library, the proxy works without it."""

from pathlib import Path

import pytest

from codehub.proxy.upstream import relay


@pytest.mark.parametrize("library", ["libc.so.6", "/no/such/library.so"])
def test_a_library_that_is_missing_or_of_another_source_is_not_used(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "LIBRARY", Path(library))
    assert relay.load.__wrapped__() is None  # without its cache, which the other tests share
