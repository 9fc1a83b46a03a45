"""Save the blocks that the flows load by name, and make the ledger ready; safe to repeat."""

import getpass
import inspect
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import httpx
from prefect.blocks.core import Block
from prefect.settings import get_current_settings
from pydantic import SecretStr, ValidationError

from prefect_media_jobs import blocks
from prefect_media_jobs.blocks import AttemptLedger, TornadoApi
from prefect_media_jobs.blocks.domain.redaction import clean, shown_source
from prefect_media_jobs.blocks.errors import BlockUnusableError, InvalidInputError
from prefect_media_jobs.blocks.ledger.locating import parse_url

T = TypeVar("T", bound=Block)

LEDGER, API = "media-ledger", "media-api"
LEDGER_URL_VARIABLE = "MEDIA_JOBS_LEDGER_URL"
API_URL_VARIABLE = "MEDIA_JOBS_API_URL"
API_KEY_VARIABLE = "MEDIA_JOBS_API_KEY"
_BLOCK_NAME = re.compile(r"[a-z0-9-]+")


@dataclass(frozen=True)
class Saved:
    """What became of one block.

    Args:
        change: "created", "updated" or "unchanged".
        place: Where it leads, as it may be shown.
    """

    name: str
    change: str
    place: str

    def __str__(self) -> str:
        return f"Block {self.name} is {self.change}: {self.place}"


@dataclass(frozen=True)
class Bootstrapped:
    """What a bootstrap did; nothing in it is secret."""

    ledger: Saved
    api: Saved


def bootstrap(
    *,
    ledger: str = LEDGER,
    api: str = API,
    ledger_url: str | None = None,
    api_url: str | None = None,
    api_key: str | SecretStr | None = None,
    ask_key: Callable[[], str] | None = None,
    accept_ledger: bool = False,
) -> Bootstrapped:
    """Save both blocks, create or upgrade the ledger, and register the block types.

    A value that is left out comes from its environment variable, else from the saved block, else it is the
    default; a saved key is never reset without a new one.

    Args:
        ledger: Name of the ledger block.
        api: Name of the media API block.
        ask_key: Asks a person for the API key, if there is none.
        accept_ledger: Accept that the ledger is not the one the block has used before.
    Raises:
        InvalidInputError: a value cannot be used, or there is no API key; nothing was saved.
        LedgerUnavailableError: the ledger cannot be created; nothing was saved.
        BlockUnusableError: Prefect cannot be reached, or a saved block cannot be read.
    Safe to repeat: yes.
    """
    old_book, old_shop = saved_block(AttemptLedger, ledger), saved_block(TornadoApi, api)
    book = _ledger_block(old_book, _given(ledger_url, LEDGER_URL_VARIABLE))
    key = _given(api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key, API_KEY_VARIABLE)
    shop = _api_block(old_shop, _given(api_url, API_URL_VARIABLE), key, ask_key)
    book.upgrade()
    if book.identity is None or accept_ledger:
        book.identity = book.find_identity()
    with reaching_prefect():
        saved = _save(book, old_book, ledger, book.place), _save(shop, old_shop, api, shop.base_url)
        _register_the_rest()
    return Bootstrapped(*saved)


def ledger_at(url: str) -> AttemptLedger:
    """Return the ledger at a URL.

    Raises:
        InvalidInputError: the URL cannot be used.
    """
    parse_url(url)
    return AttemptLedger(url=SecretStr(url))


def saved_block(kind: type[T], name: str) -> T | None:
    """Return a saved block; None when there is none of this name.

    Raises:
        InvalidInputError: no block can have this name.
        BlockUnusableError: Prefect cannot be reached, or the block cannot be read by this version.
    """
    if not _BLOCK_NAME.fullmatch(name):
        raise InvalidInputError(
            f"No block can be named {clean(name, 200)!r}; names have small letters, digits and dashes."
        )
    try:
        with reaching_prefect():
            block: object = kind.load(name)
    except (ValidationError, RuntimeError):
        raise BlockUnusableError(
            f"The {kind.__name__} block {name!r} does not fit this version; open it in the Prefect UI and "
            "save it again."
        ) from None
    except ValueError:
        return None
    if not isinstance(block, kind):
        raise BlockUnusableError(f"The block {name!r} is no {kind.__name__}.")
    return block


@contextmanager
def reaching_prefect() -> Iterator[None]:
    """Turn what the Prefect client raises when the server cannot be used into one sentence.

    Raises:
        BlockUnusableError: Prefect does not answer, or refuses.
    """
    try:
        yield
    except httpx.HTTPStatusError as error:
        raise BlockUnusableError(
            f"Prefect at {_prefect()} answered HTTP {error.response.status_code}; check PREFECT_API_URL and "
            "its credentials."
        ) from None
    except (httpx.HTTPError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not isinstance(error.__cause__, httpx.HTTPError):
            raise
        raise BlockUnusableError(
            f"Prefect at {_prefect()} does not answer; start it, or set PREFECT_API_URL."
        ) from None


def hidden_prompt() -> str:
    """Ask a person for the API key without showing it; an empty answer when there is none."""
    try:
        return getpass.getpass("API key of the media API (not shown): ")
    except EOFError:
        return ""


def _prefect() -> str:
    url = get_current_settings().api.url
    return "this machine" if url is None else shown_source(url)


def _given(value: str | None, variable: str) -> str | None:
    return value or os.environ.get(variable) or None


def _ledger_block(old: AttemptLedger | None, url: str | None) -> AttemptLedger:
    if old is None:
        return ledger_at(url) if url else AttemptLedger()
    if not url:
        return old
    book = ledger_at(url)
    # The same place keeps the identity it was known by; another place is a person's choice.
    return book.model_copy(update={"identity": old.identity}) if book.url == old.url else book


def _api_block(
    old: TornadoApi | None, url: str | None, key: str | None, ask_key: Callable[[], str] | None
) -> TornadoApi:
    if old is None and not key and ask_key is not None:
        key = ask_key()
    if old is None and not key:
        raise InvalidInputError(
            f"There is no API key; set {API_KEY_VARIABLE}, or run 'media-jobs bootstrap' in a terminal to be "
            "asked for it."
        )
    # Fields nobody mentions keep what a person may have set in the UI.
    values = {} if old is None else {name: getattr(old, name) for name in TornadoApi.model_fields}
    given = {"base_url": url, "api_key": SecretStr(key) if key else None}
    try:
        return TornadoApi(**values | {name: value for name, value in given.items() if value})
    except ValidationError as error:
        told = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field, why = told["loc"][0], told["msg"].removeprefix("Value error, ")
        raise InvalidInputError(f"The {field} of the media API {why}.") from None


def _save(block: Block, old: Block | None, name: str, place: str) -> Saved:
    if old is not None and all(getattr(block, each) == getattr(old, each) for each in type(old).model_fields):
        return Saved(name, "unchanged", place)
    block.save(name, overwrite=old is not None)
    return Saved(name, "created" if old is None else "updated", place)


def _register_the_rest() -> None:
    """Make every kind of block known to the server, so that the UI can offer it."""
    for name in blocks.__all__:
        kind = getattr(blocks, name)
        if issubclass(kind, Block) and not inspect.isabstract(kind):
            kind.register_type_and_schema()
