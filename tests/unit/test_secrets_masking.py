"""Values in what a server says: found as they stand, within bounds."""

from mooring.proxy.noise import Noise
from mooring.secrets.masking import LEAST_CHARACTERS, MOST_PIECES, Mask
from mooring.secrets.references import Reference

LINEAR, OTHER = Reference("secret", "linear"), Reference("env", "OTHER")


def knowing(*values: tuple[Reference, str]) -> Mask:
    mask = Mask()
    mask.learn(values)
    return mask


def test_a_value_is_named_instead() -> None:
    mask = knowing((LINEAR, "hunter2-hunter2"), (OTHER, "hunter2-"))
    assert mask("nothing of it") == "nothing of it"
    assert mask("key=hunter2-hunter2, hunter2-!") == "key=[secret:linear], [env:OTHER]!"


def test_short_values_are_left_where_they_are_found() -> None:
    short = "x" * (LEAST_CHARACTERS - 1)
    assert knowing((LINEAR, short))(short) == short
    assert knowing((LINEAR, short + "y"))(short + "y") == "[secret:linear]"


def test_a_value_of_many_lines_is_found_line_by_line() -> None:
    mask = knowing((LINEAR, "-----BEGIN KEY-----\r\nabcdefghijkl\nshort\n"))
    assert mask("  abcdefghijkl") == "  [secret:linear]"
    assert mask("short") == "short"


def test_an_older_value_stays_masked_until_it_gives_way() -> None:
    mask = knowing((LINEAR, "the-first-one"))
    mask.learn([(LINEAR, "the-second-one")])
    assert mask("the-first-one the-second-one") == "[secret:linear] [secret:linear]"
    mask.learn([(OTHER, "\n".join(f"line number {n}" for n in range(MOST_PIECES - 1)))])
    assert mask("the-first-one the-second-one") == "the-first-one [secret:linear]"
    mask.learn([(LINEAR, "the-second-one")])
    mask.learn([(OTHER, "one more line")])
    assert mask("the-second-one") == "[secret:linear]", "the one learnt longest ago gives way"


async def test_a_line_that_is_cut_is_masked_before() -> None:
    noise = Noise("test")
    noise.mask = knowing((LINEAR, "hunter2-hunter2"))
    excerpt = noise.excerpt(b"x" * 195 + b"hunter2-hunter2")
    assert excerpt is not None and "hunt" not in excerpt
    noise.end_second()


def test_another_mooring_masks_the_same() -> None:
    mask = Mask()
    mask.know(knowing((LINEAR, "the-first-one")).pieces)
    mask.learn([(LINEAR, "the-second-one")])
    assert mask("the-first-one the-second-one") == "[secret:linear] [secret:linear]"
