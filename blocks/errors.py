"""Every exception of the package.

What a flow branches on is a value (``domain.outcomes``); an exception means a lost race, bad input, a
misconfiguration or a bug::

    MediaJobsError
    ├── InvalidInputError (also ValueError)   something a caller gave cannot be used
    ├── BlockUnusableError                    a block is missing, or is not what the flow needs
    ├── MediaApiError
    │   ├── ApiKeyRefusedError                the API does not accept the key of the block
    │   └── ApiUnreachableError               the API did not answer in a way that can be used
    ├── ConsumerError                         a consumer cannot be called at all
    ├── DeliveryRefusedError                  a consumer says no to one result, for good
    ├── LookupIncompleteError                 some attempts of a page could not be asked about
    └── LedgerError
        ├── LedgerUnavailableError            the database cannot be opened, read or written
        ├── SchemaVersionError                the database was made by another version
        ├── UnknownLedgerError                the database is not the one that was used before
        ├── AttemptNotFoundError              no attempt, or no delivery, has this key
        ├── LiveAttemptError                  this request already has an attempt that counts
        ├── ConflictingJobError               a job id is set already, or belongs to another attempt
        ├── TransitionRefusedError            the state the attempt is in does not allow this
        └── StaleAttemptError                 another writer moved the row after it was read

All take plain positional arguments and keep them in ``args``, so they survive pickling.
"""


class MediaJobsError(Exception):
    """Base of everything this package raises; its text is one sentence for a person."""


class InvalidInputError(MediaJobsError, ValueError):
    """Something a caller gave cannot be used; nothing was sent or written."""


class BlockUnusableError(MediaJobsError):
    """A block is missing or is of another kind than the flow needs; nothing was sent or written."""


class MediaApiError(MediaJobsError):
    """The media API cannot be used at all as configured."""


class ApiKeyRefusedError(MediaApiError):
    """The media API does not accept the API key of the block."""


class ApiUnreachableError(MediaApiError):
    """The media API did not answer, or what answered is not the media API."""


class ConsumerError(MediaJobsError):
    """A consumer cannot be called at all, so nothing was handed over."""


class DeliveryRefusedError(MediaJobsError):
    """A consumer's function raises this to say no to one result; it is not offered again by itself."""


class LookupIncompleteError(MediaJobsError):
    """Some attempts of a page could not be asked about; what was answered is already in the ledger.

    Its arguments are the sentence and, by attempt id, why the question failed.
    """

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class LedgerError(MediaJobsError):
    """The ledger refused or failed."""


class LedgerUnavailableError(LedgerError):
    """The ledger's database cannot be opened, read or written."""


class SchemaVersionError(LedgerError):
    """The ledger's database has a schema this version cannot work with."""


class UnknownLedgerError(LedgerError):
    """The ledger is not the one its block has used before, so it may have been emptied or exchanged."""


class AttemptNotFoundError(LedgerError):
    """No attempt, or no delivery, has this key."""


class LiveAttemptError(LedgerError):
    """The request already has an attempt that counts, so a second one would buy it twice."""


class ConflictingJobError(LedgerError):
    """The attempt has another job id already, or the job id belongs to another attempt."""


class TransitionRefusedError(LedgerError):
    """The state the attempt is in does not allow this; the ledger is unchanged."""


class StaleAttemptError(LedgerError):
    """Another writer moved the row after it was read; the ledger is unchanged."""
