"""PKCE and state."""

import re

from mooring.oauth.proof import challenge_of, is_same, new_proof


def test_the_example_of_the_rfc() -> None:
    # RFC 7636, appendix B.
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert challenge_of(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_each_proof_is_another_and_does_not_show_itself() -> None:
    proofs = [new_proof() for _ in range(100)]
    assert len({proof.verifier for proof in proofs} | {proof.state for proof in proofs}) == 200
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", proof.verifier) for proof in proofs)
    assert proofs[0].verifier not in repr(proofs[0]) and proofs[0].state not in repr(proofs[0])


def test_texts_of_any_kind_are_compared() -> None:
    assert is_same("é", "é") and not is_same("é", "e") and not is_same("\udc80", "x")
