"""Secrets stay in blocks: nothing that is shown or kept elsewhere has them."""

import logging

import pytest

from tests.support.team import STUMBLE, Team, artifacts_of

CANARIES = ("canary-in-key", "canary-user", "canary-pass", "canary-token", "canary-in-consumer")


def test_a_run_full_of_errors_shows_no_secret(
    team: Team, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither states, artifacts, logs nor the ledger's texts have the key, or a source's user part or query.

    Prefect stores a flow run's parameters as the caller passed them, sources included: a known limit.
    """
    caplog.set_level(logging.DEBUG)
    source = "http://canary-user:canary-pass@films.example.org/42.mov?token=canary-token"
    team.sandbox.rotate_key("sk_canary-in-key-0123456789abcdef")
    team.save_api()
    states = [team.submit(team.request("refused", source=source))]
    team.sandbox.misbehave("drop_answer")
    states.append(team.submit("lost"))
    team.sandbox.misbehave("refuse", status=400, body={"error": f"bad {source} for {team.sandbox.api_key}"})
    states.append(team.submit("echoed"))
    team.sandbox.misbehave("refuse", target="list", status=500, body=f"no list for {team.sandbox.api_key}")
    states.append(team.sweep())
    states.append(team.process("good", consumer=STUMBLE, follow_for_s=30))
    team.sandbox.misbehave("refuse", target="lookup", status=500, body=f"{source} {team.sandbox.api_key}")
    states.append(team.submit("running"))
    states.append(team.sweep())
    team.save_api(base_url="http://127.0.0.1:9")
    states += [team.sweep(), team.submit("unreachable")]
    team.sandbox.rotate_key()
    team.save_api(api_key="sk_canary-in-key-0123456789abcdef")
    states.append(team.submit("wrong key"))
    told = [str(state.message) + repr(state.result(raise_on_failure=False)) for state in states]
    shown = [f"{found.data} {found.description}" for each in states for found in artifacts_of(each)]
    kept = [
        f"{attempt!r} {attempt.reason} {attempt.shown_source} {team.ledger.history(attempt.attempt_id)}"
        for attempt in team.attempts()
    ]
    kept += [repr(handoff) for handoff in team.ledger.handoffs()]
    output = capfd.readouterr()
    for canary in CANARIES:
        for texts in (told, shown, kept, [caplog.text], [output.out, output.err]):
            assert [] == [text for text in texts if canary in text], canary
    assert {"NeedsAPerson", "Uncertain", "Failed"} <= {state.name for state in states}
    assert "could not be asked about" in caplog.text
    assert "sk_canary-in-key" not in team.path.read_bytes().decode("latin-1")
