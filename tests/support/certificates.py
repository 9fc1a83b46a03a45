"""Do without the certificates of public authorities: every HTTP client reads them, for 30 ms each time."""

import ssl

import pytest


def read_none(patch: pytest.MonkeyPatch) -> None:
    """Let clients be made without certificates, in tests that speak plain HTTP to this machine alone."""
    patch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_args, **_fields: None)
