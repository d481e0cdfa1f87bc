"""What `mark_kernels` tells of texts, and of marks that may end English sentences."""

# What a text has
HAS_WIDE, HAS_BREAK, HAS_BRACKET, HAS_BACKTICK, IS_CASED = 1, 2, 4, 8, 16
"""Characters outside ASCII; line ends; `<`; a backtick; a small letter after a capital."""

# Kinds of marks: what decides whether a sentence ends
OPEN = 0
"""All that the rules look at."""
ENDS = 1
"""Nothing: a sentence ends, as in `Who? Nobody.`"""
IN_SPEECH = 2
"""Whether capitals mean something: if so none ends, as in `"Who?" he said`."""
AFTER_WORD = 3
"""The word before it, as in `it rained.) We left`; for the next kinds, too."""
AFTER_TITLE = 4
"""Titles end none, as in `Mr . Smith`, `No. 5`; for the next two kinds, too."""
BEFORE_SMALL = 5
"""Abbreviations end none if capitals mean something, as in `the U.S. army`."""
BEFORE_CAPITAL = 6
"""Abbreviations end none before most words, as in `the U.S. Army`."""
BEFORE_QUOTE = 7
"""As in `he left . ' Nobody`, where backticks open quotations."""
