"""Links to stored files that carry their own permission and end by themselves, in the manner of S3."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlencode
from xml.sax.saxutils import escape

STAMP = "%Y%m%dT%H%M%SZ"
ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class StorageRefusal:
    """A storage answer without the file, as S3 would word it."""

    status: int
    code: str
    message: str
    extra: tuple[tuple[str, str], ...] = ()

    @property
    def xml(self) -> str:
        """The body of the answer."""
        fields = (("Code", self.code), ("Message", self.message), *self.extra, ("RequestId", "SANDBOX"))
        inside = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields)
        return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{inside}</Error>'


NO_SUCH_KEY = StorageRefusal(404, "NoSuchKey", "The specified key does not exist.")
MISMATCH = StorageRefusal(
    403,
    "SignatureDoesNotMatch",
    "The request signature we calculated does not match the signature you provided.",
)
UNSIGNED = StorageRefusal(403, "AccessDenied", "Access Denied")


class LinkSigner:
    """Signs links for GET and checks them. Its secret lives as long as the process.

    Args:
        lifetime_s: Whole seconds a new link is good for.
    """

    def __init__(self, lifetime_s: int) -> None:
        self._lifetime_s = lifetime_s
        self._secret = secrets.token_bytes(32)
        self._round = 0

    def link(self, base_url: str, key: str) -> str:
        """Return a fresh link to an object."""
        now = datetime.now(UTC)
        query = {
            "X-Amz-Algorithm": ALGORITHM,
            "X-Amz-Credential": f"SANDBOX/{now:%Y%m%d}/local/s3/aws4_request",
            "X-Amz-Date": now.strftime(STAMP),
            "X-Amz-Expires": str(self._lifetime_s),
            "X-Amz-SignedHeaders": "host",
            "X-Sandbox-Round": str(self._round),
        }
        query["X-Amz-Signature"] = self._signature(key, query)
        return f"{base_url.rstrip('/')}/storage/{quote(key)}?{urlencode(query)}"

    def end_all_links(self) -> None:
        """Let every link signed so far count as expired."""
        self._round += 1

    def refusal(self, method: str, key: str, query: Mapping[str, str]) -> StorageRefusal | None:
        """Return why a request may not have the object, None when it may."""
        given = dict(query)
        signature = given.pop("X-Amz-Signature", "")
        if not signature:
            return UNSIGNED
        if method != "GET" or not hmac.compare_digest(
            signature.encode(), self._signature(key, given).encode()
        ):
            return MISMATCH
        signed_at = datetime.strptime(given["X-Amz-Date"], STAMP).replace(tzinfo=UTC).timestamp()
        ends_at = signed_at + int(given["X-Amz-Expires"])
        if int(time.time()) > ends_at or int(given["X-Sandbox-Round"]) < self._round:
            return _expired(ends_at)
        return None

    def _signature(self, key: str, query: Mapping[str, str]) -> str:
        signed = f"GET\n{key}\n{urlencode(sorted(query.items()))}"
        return hmac.new(self._secret, signed.encode(), hashlib.sha256).hexdigest()


def _expired(ends_at: float) -> StorageRefusal:
    iso = "%Y-%m-%dT%H:%M:%SZ"
    times = (
        ("Expires", datetime.fromtimestamp(ends_at, UTC).strftime(iso)),
        ("ServerTime", datetime.now(UTC).strftime(iso)),
    )
    return StorageRefusal(403, "AccessDenied", "Request has expired", times)
