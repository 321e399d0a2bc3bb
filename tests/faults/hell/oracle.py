"""What must be true of a run, whatever both sides did.

- Every call that was sent whole, and for which its client waited, was answered once, or refused.
- An answer of the server is the one that this server gave to that very call.
- No call was executed twice, unless it may be repeated and that was allowed.
- None was executed that was not sent whole, was refused, or was answered with "retryable": true (and
  may not be repeated).
- No session ended without a reason.
- Of a request without a session (2026-07-28) each round was answered, and only the first was executed:
  whatever becomes of the others, they may be sent again.

Where all sessions share their instances, or the server speaks 2026-07-28, Mooring answers some methods.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.faults.hell.facts import Call, Facts, Json, Ledger

__all__ = ["judge"]

DOCUMENT = Path(__file__).parents[3] / "docs" / "errors.md"
REASONS = {
    reason
    for line in DOCUMENT.read_text().splitlines()
    if line.startswith("| `")
    for reason in re.findall("`([a-z_]+)`", line.split("|")[1])
}
"""Those that clients are promised."""
ENDINGS = (
    "the client ended it",
    "the client disconnected",
    "the connection was closed",
    "it slept longest when there was no room",
    "the server now speaks",
    "the run is over",
)
"""Why an open session may end."""
INVALID_REQUEST = -32600
INVALID_PARAMS, MISSING_CAPABILITY = -32602, -32021
ANSWERED_FOR_SHARED = ("logging/setLevel", "resources/unsubscribe")
ANSWERED_FOR_MODERN = (*ANSWERED_FOR_SHARED, "resources/subscribe")
ANSWERED_WITHOUT_SESSION = ("server/discover", "subscriptions/listen")


def judge(facts: Facts, ledger: Ledger, *, retries: bool) -> None:
    """Add what is wrong to the problems of the run, and count what became of the calls."""
    for deed in ledger.said("wrong"):
        facts.problem(f"{deed.who}: {deed.rest}")
    for call in facts.calls:
        executed = ledger.executed.get(call.token, [])
        outcome, problems = _outcome(call, ledger, facts)
        facts.outcomes[outcome] += 1
        for problem in (*problems, *_wrong_executions(call, executed, facts, retries=retries)):
            facts.problem(f"{call.token}: {problem}")


def _wrong_executions(call: Call, executed: list[str], facts: Facts, *, retries: bool) -> Iterator[str]:
    # A session that was asleep subscribes again, by words that a shared server cannot know for a repetition.
    is_replayed = facts.shared and call.method == "resources/subscribe"
    if len(executed) > 1 and not (call.repeatable and retries) and not is_replayed:
        yield f"executed {len(executed)} times"
    # (What goes on with a call has its token, and may never have been sent.)
    if executed and not call.whole and not call.state:
        yield "executed, and it was never sent whole"
    if executed and call.forbidden:
        yield "executed, and its session is not for its client"
    if executed and call.status and not call.state:
        yield f"executed, and it was refused with {call.status}"


def _outcome(call: Call, ledger: Ledger, facts: Facts) -> tuple[str, list[str]]:
    """What became of a call, in a word; and what is wrong with that."""
    if len(call.answers) > 1:
        _forget_lost(call)
    if len(call.answers) > 1:
        return "answered twice", [f"answered {len(call.answers)} times: {call.answers}"]
    if call.answers and call.method == "initialize":
        return "greeted", []
    if call.answers:
        answer = next(iter(call.answers.values()))
        answered_here = ANSWERED_FOR_MODERN if facts.modern else ANSWERED_FOR_SHARED if facts.shared else ()
        if call.method in answered_here and answer.get("result") == {}:
            return "answered", []
        if call.capabilities is not None and (outcome := _without_session(call, answer)) is not None:
            return outcome
        return _answer(call, answer, ledger)
    if call.status:
        return f"HTTP {call.status}", _wrong_status(call, facts)
    if call.left or call.forbidden or not call.whole:
        return "left", []
    return "lost", ["its connection ended without an answer" if call.cut else "never answered"]


def _without_session(call: Call, answer: Json) -> tuple[str, list[str]] | None:
    """What became of a request of 2026-07-28; None: what becomes of others, too."""
    result, code = answer.get("result"), (answer.get("error") or {}).get("code")
    if result is not None:
        kind = result.get("resultType")
        problems = [] if call.state_is != "bad" else [f"a bad state was taken: {json.dumps(answer)[:300]}"]
        if kind == "input_required":
            return "asked", problems
        if kind != "complete":
            return "strange", [f"a result of no type: {json.dumps(answer)[:300]}"]
        return ("answered", problems) if call.method in ANSWERED_WITHOUT_SESSION or problems else None
    if code == INVALID_PARAMS and call.state_is in ("used", "bad"):
        return "refused", []
    if code == MISSING_CAPABILITY:
        [needed] = answer["error"]["data"]["requiredCapabilities"]
        return "unable", [] if needed not in (call.capabilities or {}) else [f"it can be asked {needed}"]
    return None


def _forget_lost(call: Call) -> None:
    """Who asks again for an answer that it had, and that is no longer kept, is told so."""
    for event, answer in list(call.answers.items()):
        if ((answer.get("error") or {}).get("data") or {}).get("reason") == "answer_lost":
            del call.answers[event]


def _wrong_status(call: Call, facts: Facts) -> list[str]:
    if call.status == 503 and (call.method == "initialize" or facts.is_ending):
        return []
    if call.status != 404:
        return [f"refused with {call.status}"]
    why = facts.closed.get(call.session_id[:8], "")
    return [] if why.startswith(ENDINGS) else [f"its session was not found, and ended because: {why!r}"]


def _answer(call: Call, answer: Json, ledger: Ledger) -> tuple[str, list[str]]:
    error = answer.get("error") or {}
    data = error.get("data") or {}
    said = answer.get("result") or data
    if "token" in said:
        return _server_answer(call, said, ledger)
    executed = call.token in ledger.executed
    if error.get("code") == INVALID_REQUEST:
        return "invalid", ["executed, and told to be invalid"] if executed else []
    reason = str(data.get("reason"))
    if reason not in REASONS:
        return "strange", [f"a strange answer: {json.dumps(answer)[:300]}"]
    if data["retryable"] and executed and not call.repeatable and not call.state:
        return reason, [f"executed, and told to be retryable: {json.dumps(answer)[:300]}"]
    return reason, []


def _server_answer(call: Call, said: Json, ledger: Ledger) -> tuple[str, list[str]]:
    twins = [call.token] + ([call.twin.token] if call.twin is not None else [])
    if said["token"] not in twins:
        return "wrong", [f"got the answer to {said['token']}"]
    if said["value"] not in ledger.executed.get(said["token"], []):
        return "wrong", [f"got {said['value']}, which no server said of it"]
    return "answered", []
