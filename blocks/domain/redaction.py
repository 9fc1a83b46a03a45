"""What may be shown of a text: no signed links, no keys, no control characters, no endless bodies."""

import re
from urllib.parse import urlsplit, urlunsplit

SHOWN_CHARACTERS = 500
"""Longest text kept of anything that came from outside, in characters."""

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,30}://[^\s\"'<>\\]+")
_SECRETS = (
    re.compile(r"\b(?:sk|whsec)_[A-Za-z0-9_\-]{6,}"),
    re.compile(r"(?i)\bbearer\s+(\S{6,})"),
    re.compile(r"(?i)\bauthorization[\"']?\s*[=:]\s*[\"']?basic\s+([^\s\"']+)"),
    re.compile(
        r"(?i)(?:(?:api|access|account|private|secret)[_-]?key|token|passw(?:or)?d|secret|signature"
        r"|credential|(?<![a-z])sig)\\?[\"']?\s*[=:]\s*\\?[\"']?([^\s\"'&,;}]+)"
    ),
)
_USER_PART = re.compile(r"[^\s/@:]+:[^\s/@]*@")
_MASK = "[hidden]"
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def shown_source(source: str) -> str:
    """Return a source as it may be shown: without query, fragment and user part."""
    try:
        parts = urlsplit(source)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return _MASK
    if not parts.netloc:
        return clean(_USER_PART.sub("", source.split("?", 1)[0].split("#", 1)[0]))
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return clean(urlunsplit((parts.scheme, f"{host}{port}", parts.path, "", "")))


def clean(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """Return the text without what a database or a terminal chokes on, and not longer than ``limit``."""
    text = _UNPRINTABLE.sub("�", text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def redact(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """Return a text from outside as it may be stored and shown.

    Links lose their query, fragment and user part; whatever looks like a key, token or signature is masked.
    The text is bounded first, so that a huge body costs nothing.
    """
    text = text[: 8 * limit]
    text = _URL.sub(lambda match: shown_source(match.group()), text)
    for pattern in _SECRETS:
        text = pattern.sub(_mask, text)
    return clean(text, limit)


def _mask(match: re.Match[str]) -> str:
    if not match.groups():
        return _MASK
    whole, value = match.group(0), match.group(1)
    return whole[: len(whole) - len(value)] + _MASK
