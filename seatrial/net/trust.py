"""The authorities that connections are verified by."""

import os
import ssl
from functools import cache

import httpx


def trusted() -> ssl.SSLContext:
    """Return what connections are verified by: the public authorities, or those SSL_CERT_FILE or SSL_CERT_DIR names."""
    return _trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _trusted(file: str | None, folder: str | None) -> ssl.SSLContext:
    # Reading the authorities takes 25 ms: once for all clients of a process.
    return httpx.create_ssl_context()
