"""When a silent peer is asked for a sign of life, and when it is given up."""

from mooring.http.limits import Limits
from mooring.http.pulse import Beat, Pulse


def test_asked_after_the_interval_and_lost_after_the_timeout() -> None:
    pulse = Pulse(Limits(ping_interval_s=20, ping_timeout_s=10))
    assert pulse.look(0, heard=False) is Beat.NOTHING
    assert pulse.look(19.9, heard=False) is Beat.NOTHING
    assert pulse.look(20, heard=False) is Beat.ASK
    assert pulse.look(29.9, heard=False) is Beat.NOTHING
    assert pulse.look(30, heard=False) is Beat.LOST


def test_whatever_is_heard_is_a_sign_of_life() -> None:
    pulse = Pulse(Limits(ping_interval_s=20, ping_timeout_s=10))
    assert pulse.look(0, heard=True) is Beat.NOTHING
    assert pulse.look(20, heard=False) is Beat.ASK
    assert pulse.look(29, heard=True) is Beat.NOTHING
    assert pulse.look(48, heard=False) is Beat.NOTHING
    assert pulse.look(49, heard=False) is Beat.ASK
