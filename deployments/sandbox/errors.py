"""What can go wrong in the sandbox itself.

These do not descend from the plugin's errors: the sandbox stands for a foreign system, and starts without
Prefect.
"""


class SandboxError(Exception):
    """The sandbox cannot be started, or was asked for something it does not have."""


class ProcessingFailedError(Exception):
    """The source could not be turned into the wanted file; its text becomes the job's error text."""


class RefusalError(Exception):
    """A request that the API answers with a definite no.

    Args:
        status: HTTP status of the answer.
        body: JSON object, or text for an answer in plain text.
    """

    def __init__(self, status: int, body: dict[str, object] | str) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body


def bad_request(text: str) -> RefusalError:
    """Return the contract's refusal of a request that could be read but not granted."""
    return RefusalError(400, {"error": text})
