"""English words that edits and features know: lists of our own, coarse and short."""

# ruff: noqa: SIM905  (a list of words reads best as a text)

WEEKDAYS = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())
MONTHS = frozenset(
    "january february march april june july august september october november december".split()
)
NUMBER_WORDS = frozenset(
    "two three four five six seven eight nine ten eleven twelve dozen hundred thousand million "
    "billion".split()
)
TITLES = frozenset(
    "mr mrs ms miss dr sir lord lady president minister judge king queen prince princess captain "
    "officer detective coach senator governor mayor".split()
)
SPEAKING = frozenset("said says told added claimed wrote tweeted admitted who".split())
"""What follows the name of a person."""
BEFORE_PLACES = frozenset("in at near from outside across".split())
AUXILIARIES = frozenset(
    "is are was were has have had will would can could should may might must did does".split()
)
POINTING = frozenset(
    "he she it they his her its their him them this that these those but and so then also however "
    "meanwhile".split()
)
"""A summary that begins with one of them points at something it has not said."""
OPPOSITES = {
    word: other
    for pair in (
        "more less, most least, first last, before after, increase decrease, rise fall, "
        "increased decreased, rose fell, high low, higher lower, highest lowest, up down, "
        "win lose, won lost, winning losing, victory defeat, guilty innocent, accepted rejected, "
        "allowed banned, alive dead, older younger, new old, large small, larger smaller, "
        "best worst, better worse, good bad, early late, earlier later, open closed, "
        "opened closed, started ended, began ended, inside outside, with without, always never, "
        "all none, many few, male female, man woman, men women, boy girl, husband wife, "
        "father mother, son daughter, brother sister, his her, he she, north south, east west, "
        "northern southern, eastern western, arrived left, arrested released, "
        "supported opposed, support oppose, agreed refused, same different, safe dangerous"
    ).split(", ")
    for word, other in (pair.split(), pair.split()[::-1])
}
"""Words that turn a statement round; of a word with several the last one counts."""
