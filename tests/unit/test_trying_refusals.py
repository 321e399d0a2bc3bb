"""What a server's refusal is told as, with what helps on this very command line."""

from pathlib import Path

from mooring.cli.trying.commands import call
from mooring.cli.trying.errands import Asked, _data_lines, in_words
from mooring.host.visiting import VisitOptions
from mooring.remote.visitor import Refused
from mooring.wire.verdicts import describe_status

URL = "http://127.0.0.1:1/mcp"


def unauthorized() -> Refused:
    failure = describe_status(401, b"", None, "tools/call")
    return Refused({"code": -32603, "message": failure.message, "data": {"reason": failure.reason}})


def test_without_a_token_the_hint_names_options_that_there_are() -> None:
    message, hint = in_words(unauthorized(), Asked(server=URL, visit=VisitOptions(url=URL)))
    assert message == "the server wants to know who asks (401)"
    options = {name for option in call.params for name in option.opts}
    named = {word for word in hint.split() if word.startswith("--")}
    assert named == {"--token-file", "--header-env"} and named <= options


def test_a_token_that_is_refused_is_doubted() -> None:
    visit = VisitOptions(url=URL, token_file=Path("mine.token"))
    assert "mine.token" in in_words(unauthorized(), Asked(server=URL, visit=visit))[1]


def test_a_server_of_the_daemon_has_a_log() -> None:
    error = unauthorized()
    message, hint = in_words(error, Asked(server="time", visit=VisitOptions(url=URL)))
    assert (message, hint) == (
        error.message,
        "if it asks for a login: mooring login time; mooring logs time tells more",
    ), "it is told how it was run"


def test_other_errors_are_told_as_they_are() -> None:
    asked = Asked(server=URL, visit=VisitOptions(url=URL))
    assert in_words(Refused({"message": "no"}), asked) == ("no", "")


def test_nobody_is_told_to_try_again_who_is_not_let_in() -> None:
    assert _data_lines({"reason": "forbidden", "retryable": True}) == ["reason: forbidden"]
    assert _data_lines({"reason": "server_busy", "retryable": True})[1:] == ["retryable: true"]
