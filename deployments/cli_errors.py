"""How a command that cannot do what was asked ends: one sentence, and an exit code for scripts."""

import sys
import traceback

from cyclopts import CycloptsError

REFUSED, UNEXPECTED, INTERRUPTED = 2, 1, 130
"""Exit codes: bad input or an unusable block, ledger or API; anything unforeseen; Ctrl-C."""

_EXPECTED = {
    "prefect_media_jobs.blocks.errors": "MediaJobsError",
    "prefect_media_jobs.deployments.sandbox.errors": "SandboxError",
}
"""Errors whose text is a sentence for a person; looked up only where their module is imported already."""


def tell(error: Exception, *, debug: bool) -> int:
    """Say what went wrong in one sentence and return the exit code."""
    loaded = [(sys.modules.get(module), name) for module, name in _EXPECTED.items()]
    expected = tuple(getattr(module, name) for module, name in loaded if module is not None)
    if isinstance(error, (CycloptsError, *expected)):
        sys.stderr.write(" ".join(str(error).split()) + "\n")
        return REFUSED
    if debug:
        traceback.print_exception(error)
    sys.stderr.write(
        f"Something unforeseen happened ({type(error).__name__}{_redacted(error)}); "
        "run it again with --debug to see where.\n"
    )
    return UNEXPECTED


def _redacted(error: Exception) -> str:
    """Return what an unforeseen error says, if the module that hides secrets is there already."""
    redaction = sys.modules.get("prefect_media_jobs.blocks.domain.redaction")
    text = "" if redaction is None else " ".join(redaction.redact(str(error)).split())
    return f": {text}" if text else ""
