"""Keeping known secrets out of every text: the key, the source's query, a signed link's query."""

import html
import json
from collections.abc import Iterable
from functools import cached_property
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

from prefect_media_jobs.blocks.domain.redaction import SHOWN_CHARACTERS, redact, shown_source

_MASK = "[hidden]"
_SHORTEST = 6
"""Shorter values are not hidden: they are no secrets, and the text would become unreadable."""
_READ_CHARACTERS = 64 * 1024


class Hider:
    """Turn texts from outside into texts that may be shown and stored.

    Args:
        secrets: Values that must never appear, such as the API key.
        links: Addresses whose query, fragment and user part must never appear.
    """

    def __init__(self, secrets: Iterable[str] = (), links: Iterable[str | None] = ()) -> None:
        self._secrets, self._links = tuple(secrets), tuple(links)

    @cached_property
    def _swaps(self) -> list[tuple[str, str]]:
        """What is replaced by what; most answers have nothing to hide, so it is made when first needed."""
        swaps = {secret: _MASK for secret in self._secrets if secret}
        for link in self._links:
            if link:
                swaps |= dict.fromkeys(_private_parts(link), _MASK) | {link: shown_source(link)}
        spelt = {spelling: shown for value, shown in swaps.items() for spelling in _spellings(value)}
        # The longest first: a whole link must go before the parts of it.
        return sorted(spelt.items(), key=lambda swap: -len(swap[0]))

    def __call__(self, text: str, limit: int = SHOWN_CHARACTERS) -> str:
        """Return the text without secrets, on one line, and bounded."""
        text = text[:_READ_CHARACTERS]
        for value, shown in self._swaps:
            text = text.replace(value, shown)
        # Escaped slashes would hide a link from the redaction.
        text = text.replace("\\/", "/").replace("\\u0026", "&")
        return redact(" ".join(text.split()), limit)


def _private_parts(link: str) -> list[str]:
    try:
        parts = urlsplit(link)
    except ValueError:
        return []
    pairs = parse_qsl(parts.query) + parse_qsl(parts.fragment)
    user, _, _ = parts.netloc.rpartition("@")
    values = [parts.query, parts.fragment, user, *user.split(":"), *(value for _, value in pairs)]
    return [value for value in values if len(value) >= _SHORTEST]


def _spellings(value: str) -> set[str]:
    """Return the ways in which JSON, HTML and query strings write the same value."""
    in_json = json.dumps(value)[1:-1]
    return {
        value,
        in_json,
        in_json.replace("/", "\\/"),
        in_json.replace("&", "\\u0026"),
        html.escape(value),
        quote(value, safe="", errors="replace"),
        quote_plus(value, errors="replace"),
        quote(value, errors="replace"),
    }
