"""However stderr is cut into pieces, the same lines come out."""

from hypothesis import given
from hypothesis import strategies as st

from mooring.runtimes.text import TextLines


@given(st.lists(st.binary(max_size=20)), st.integers(min_value=1, max_value=30))
def test_any_chunking_gives_the_same_lines(pieces: list[bytes], limit: int) -> None:
    def read(chunks: list[bytes]) -> list[str]:
        decoder = TextLines(limit)
        lines = [line for chunk in chunks for line in decoder.feed(chunk)]
        last = decoder.close()
        return lines if last is None else [*lines, last]

    whole = b"".join(pieces)
    assert read(pieces) == read([whole]) == read([whole[i : i + 1] for i in range(len(whole))])


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))))
def test_text_comes_back(lines: list[str]) -> None:
    assert TextLines().feed("".join(f"{line}\n" for line in lines).encode()) == lines
