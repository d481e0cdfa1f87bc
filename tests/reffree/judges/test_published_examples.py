"""The values that the judges' own pages print, with the real weights.

`ASSAY_JUDGES` names a folder with one of every model; those that are missing are skipped.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from reffree.judges.model import JudgeModel

pytestmark = pytest.mark.slow

# README.md of tingofurro/summac
MARS = """Scientists are studying Mars to learn about the Red Planet and find landing sites for \
future missions.
One possible site, known as Arcadia Planitia, is covered instrange sinuous features.
The shapes could be signs that the area is actually made of glaciers, which are large masses of \
slow-moving ice.
Arcadia Planitia is in Mars' northern lowlands."""
SHAPES = (
    "There are strange shape patterns on Arcadia Planitia. The shapes could indicate the area "
    "might be made of glaciers."
)
MARS_PAIRS = [
    (MARS, f"{SHAPES} This makes Arcadia Planitia ideal for future missions."),
    (MARS, SHAPES),
]
# README.md of Liyan06/MiniCheck
STUDENTS = (
    "A group of students gather in the school library to study for their upcoming final exams."
)
EXAMS = [
    (STUDENTS, "The students are preparing for an examination."),
    (STUDENTS, "The students are on vacation."),
]
# README.md of vectara/hallucination_evaluation_model
HHEM_PAIRS = [
    ("The capital of France is Berlin.", "The capital of France is Paris."),
    ("I am in California", "I am in United States."),
    ("I am in United States", "I am in California."),
    ("A person on a horse jumps over a broken down airplane.", "A person is outdoors, on a horse."),
    (
        "A boy is jumping on skateboard in the middle of a red bridge.",
        "The boy skates down the sidewalk on a red bridge",
    ),
    (
        "A man with blond-hair, and a brown shirt drinking out of a public water fountain.",
        "A blond man wearing a brown shirt is reading a book.",
    ),
    ("Mark Wahlberg was a fan of Manny.", "Manny was a fan of Mark Wahlberg."),
]
HHEM_VALUES = [0.0111, 0.6474, 0.1290, 0.8969, 0.1846, 0.0050, 0.0543]
# README.md of maszhongming/UniEval
PARTY = (
    "Peter and Elizabeth took a taxi to attend the night party in the city. "
    "             While in the party, Elizabeth collapsed and was rushed to the hospital."
)
HOSPITAL = "Elizabeth was hospitalized after attending a party with Peter."
SUMMARY = "Peter and Elizabeth attend party city. Elizabeth rushed hospital."
# README.md of google/t5_11b_trueteacher_and_anli: 1 and 0
SUN = [
    ("the sun is shining", "the sun is out in the sky"),
    ("the sun is shining", "the cat is shiny"),
]

TOM = [(PARTY, "Tom was rushed to hospital.")]

# folder, preset (and aspect), pairs, printed values, half a unit of the last digit printed
EXAMPLES = [
    ("vitc", "summac-zs", MARS_PAIRS, [0.582, 0.877], 5e-4),
    ("vitc", "summac-conv", MARS_PAIRS, [0.536, 0.709], 5e-4),
    ("minicheck-flan-t5-large", "minicheck", EXAMS, [0.9805923700, 0.0071213306], 1e-4),
    ("hhem", "hhem", HHEM_PAIRS, HHEM_VALUES, 5e-5),
    ("trueteacher", "trueteacher", SUN, [1, 0], 0.5),
    ("unieval-sum", "unieval coherence", [(PARTY, SUMMARY)], [0.948185], 1e-4),
    ("unieval-sum", "unieval consistency", [(PARTY, SUMMARY)], [0.883036], 1e-4),
    ("unieval-sum", "unieval fluency", [(PARTY, SUMMARY)], [0.42928], 1e-4),
    ("unieval-sum", "unieval relevance", [(HOSPITAL, SUMMARY)], [0.636075], 1e-4),
    ("unieval-fact", "unieval consistency", TOM, [0.025441], 1e-4),
]


@pytest.mark.parametrize(("name", "judge", "pairs", "printed", "atol"), EXAMPLES)
def test_values_are_those_printed(name, judge, pairs, printed, atol):
    folder = Path(os.environ.get("ASSAY_JUDGES", "judges")) / name
    if not folder.is_dir():
        pytest.skip(f"no weights at {folder}; set ASSAY_JUDGES to the folder that has them")
    preset, _, aspect = judge.partition(" ")
    table = {"preset": preset, **({"aspect": aspect} if aspect else {})}
    found = JudgeModel(str(folder), table).score(*zip(*pairs, strict=True))
    np.testing.assert_allclose(found.scores, printed, atol=atol, rtol=0)
