"""From block names to blocks; a name is the one form of a parameter that survives every kind of rerun."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

from prefect.blocks.core import Block
from pydantic import ValidationError

from prefect_media_jobs.blocks import AttemptLedger, CallableConsumer, TornadoApi
from prefect_media_jobs.blocks.consumers import Consumer
from prefect_media_jobs.blocks.domain.redaction import clean
from prefect_media_jobs.blocks.errors import BlockUnusableError, InvalidInputError, UnknownLedgerError
from prefect_media_jobs.blocks.media import MediaApi

T = TypeVar("T", bound=Block)


@contextmanager
def opened(ledger: str, api: str) -> Iterator[tuple[AttemptLedger, MediaApi]]:
    """Load both blocks for one flow run, and close their connections at its end.

    Raises:
        BlockUnusableError: there is no such block.
        LedgerUnavailableError: the ledger's database cannot be written.
    """
    with closing(load_ledger(ledger)) as book, closing(load_api(api)) as shop:
        yield book, shop


def require_known_ledger(ledger: AttemptLedger, name: str) -> None:
    """Refuse to buy into a ledger that is not the one this block has used before.

    An emptied ledger would buy everything again. The first use of a block notes the identity.

    Raises:
        UnknownLedgerError: it is another one; nothing was sent.
    """
    found = ledger.find_identity()
    if ledger.identity is None:
        ledger.identity = found
        ledger.save(name, overwrite=True)
    elif ledger.identity != found:
        raise UnknownLedgerError(
            f"The ledger at {ledger.place} is not the one block {clean(name, 200)!r} has used before. It "
            "might buy everything again; restore it, or run 'media-jobs bootstrap --accept-ledger'."
        )


def load_ledger(name: str) -> AttemptLedger:
    """Load a ledger block and make sure the ledger can be written.

    Raises:
        BlockUnusableError: there is no such block.
        LedgerUnavailableError: its database cannot be written.
    """
    ledger = _load(AttemptLedger, name)
    ledger.check()
    return ledger


def load_api(name: str) -> MediaApi:
    """Load a media API block: a Tornado API by its name, any other kind as "block-type/name".

    Raises:
        BlockUnusableError: there is no such block, or it is no media API.
    """
    return _load(MediaApi, name) if "/" in name else _load(TornadoApi, name)


def load_consumer(name: str) -> Consumer:
    """Load a consumer: "package.module:function", or a saved block as "block-type/name".

    Raises:
        BlockUnusableError: there is no such block, or it is no consumer.
        ConsumerError: it cannot be called.
    """
    if ":" in name:
        try:
            consumer: Consumer = CallableConsumer(target=name)
        except ValidationError:
            raise InvalidInputError(
                f"The consumer {clean(name, 200)!r} is no import path; give package.module:function."
            ) from None
    else:
        consumer = _load(Consumer, name) if "/" in name else _load(CallableConsumer, name)
    consumer.check()
    return consumer


def _load(kind: type[T], name: str) -> T:
    described, shown = kind.__name__, clean(name, 200)
    advice = "run 'media-jobs bootstrap', or create it in the Prefect UI under Blocks"
    if issubclass(kind, Consumer):
        advice = "write an import path as package.module:function, or create the block in the Prefect UI"
    try:
        block: object = (Block if "/" in name else kind).load(name)
    except (ValidationError, RuntimeError):
        raise BlockUnusableError(
            f"The {described} block {shown!r} does not fit this version; open it in the Prefect UI and "
            "save it again."
        ) from None
    except ValueError:
        raise BlockUnusableError(f"There is no {described} block named {shown!r}; {advice}.") from None
    if not isinstance(block, kind):
        raise BlockUnusableError(f"The block {shown!r} is no {described}.")
    return block
