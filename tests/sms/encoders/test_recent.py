"""Values of recent texts: what is forgotten, and a change that breaks off."""

from __future__ import annotations

import pytest

from sms.encoders.recent import Recent


def test_oldest_values_are_forgotten_first():
    recent: Recent[str] = Recent(len)
    recent.add({"a": "xx", "b": "xx"}, 5)
    assert recent["a"] == "xx"  # used, so that `b` is older
    recent.add({"c": "xx"}, 5)
    assert recent.missing(["a", "b", "c"]) == [1]
    assert (len(recent), recent.n_bytes) == (2, 4)


def test_change_that_breaks_off_leaves_whole_values_and_their_bytes():
    sizes = []

    def size_of(value: str) -> int:
        sizes.append(value)
        if len(sizes) == 4:  # when the first is forgotten
            raise KeyboardInterrupt
        return len(value)

    recent: Recent[str] = Recent(size_of)
    recent.add({"a": "xx"}, 5)
    with pytest.raises(KeyboardInterrupt):
        recent.add({"b": "xx", "c": "xx"}, 5)
    assert recent.missing(["a", "b", "c"]) == [0]
    assert recent.n_bytes == 4
    recent.add({"d": "xx"}, 5)
    assert (len(recent), recent.n_bytes) == (2, 4)
