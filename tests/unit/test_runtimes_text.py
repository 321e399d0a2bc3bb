"""stderr as lines of text."""

from mooring.runtimes.text import TextLines


def test_lines_are_left_as_they_are() -> None:
    lines = TextLines()
    assert lines.feed(b"one\n\n two\r\nthr") == ["one", "", " two\r"]
    assert lines.feed(b"ee\nlast") == ["three"]
    assert lines.close() == "last"
    assert lines.close() is None


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert TextLines().feed(b"a\xffb\n") == ["a\N{REPLACEMENT CHARACTER}b"]


def test_a_character_in_two_pieces() -> None:
    lines = TextLines()
    assert lines.feed("ä".encode()[:1]) == []
    assert lines.feed("ä".encode()[1:] + b"\n") == ["ä"]


def test_a_line_at_the_limit_and_one_over_it() -> None:
    assert TextLines(4).feed(b"1234\n12345\nok\n") == ["1234", "1234… [1 more bytes]", "ok"]


def test_the_rest_of_a_long_line_is_not_kept() -> None:
    lines = TextLines(4)
    for _ in range(1000):
        assert lines.feed(b"x" * 100) == []
    assert sum(map(len, lines._parts)) == 4
    assert lines.feed(b"\nnext\n") == ["xxxx… [99996 more bytes]", "next"]


def test_a_cut_through_a_character_drops_it() -> None:
    assert TextLines(4).feed("aaaä!\n".encode()) == ["aaa… [2 more bytes]"]
