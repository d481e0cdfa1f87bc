"""Small made-up data sets, and tiny weights."""

import json

import numpy as np
import polars as pl
import pytest

from assay import reproduce
from pipelines.papers.run import TABLES

WORDS = [
    "river", "bank", "water", "flood", "bridge", "mayor", "council", "budget", "school", "teacher",
    "pupil", "winter", "snow", "seller", "market", "boat", "tug", "harbour", "sailor", "ship",
    "road", "train", "engine", "city", "fire",
]  # fmt: skip


class Writer:
    """Writes texts and files; seeded."""

    def __init__(self, root):
        self.root = root
        root.mkdir()
        self.rng = np.random.default_rng(5)

    def text(self, n_sentences=2):
        """Make sentences of known words."""
        sentences = (
            " ".join(self.rng.choice(WORDS, size=5, replace=False)).capitalize() + "."
            for _ in range(n_sentences)
        )
        return " ".join(sentences)

    def file(self, name, content):
        """Write text, or objects as JSON lines."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(f"{json.dumps(item)}\n" for item in content)
        path.write_text(content, "utf-8")

    # Data sets

    def judged(self, name, documents, systems, rate, people=()):
        """Write summaries of systems and people, and the ratings that `rate` gives each."""
        rows, ratings = [], []
        for document in documents:
            written = {person: self.text(3) for person in people or ["reference"]}
            source = [self.text(4), self.text(4)]
            for system in (*systems, *people):
                key = {"document_id": document, "system_id": system}
                candidate = written.get(system) or self.text(3)
                references = [text for person, text in written.items() if person != system]
                texts = {"candidate": candidate, "references": references or None, "source": source}
                rows.append(key | texts)
                ratings += [key | values for values in rate(*key.values())]
        pl.DataFrame(rows).write_parquet(self.root / f"{name}.parquet")
        pl.DataFrame(ratings).write_parquet(self.root / f"{name}_ratings.parquet")

    def chaganty2018(self):
        def rate(document, system):
            # One summary has one judge only, and is not in the study.
            judges = range(1 if (document, system) == ("a0", "ml") else 2)
            return [{"rater": f"worker-{k}", "overall": self.rng.random()} for k in judges]

        systems = ("seq2seq", "pointer", "ml")
        self.judged("chaganty2018", [f"a{i}" for i in range(6)], systems, rate, ["human-reference"])

    def asap_sas(self, n_essays=12):
        lines = ["Id\tEssaySet\tScore1\tScore2\tEssayText"]
        for i in range(n_essays):
            # Two are shorter than the essays of the study.
            text = self.text(2 if i < 2 else 5 + i % 3)
            lines.append(f"{i}\t3\t{self.rng.integers(4)}\t{self.rng.integers(4)}\t{text}")
        self.file("asap-sas/train_rel_2.tsv", "\n".join(lines) + "\n")
        self.file("asap-sas/sample.txt", self.text(6))

    def duc(self, *years):
        systems = {2001: ("1", "A1", "B2", "C3", "D4")}
        systems[2002] = ("1", "15", "16", "18", "19", "17", "30")
        documents = [f"d061.P.AP88{j:04d}-0016" for j in range(4)]
        for year in years:
            self.judged(f"duc{year}", documents, systems[year], self.rated("coverage"))

    def tac2010(self):
        rate = self.rated("pyramid_jackknife", "linguistic_quality", "overall")
        documents = [f"D10{i:02d}-A" for i in range(4)]
        self.judged("tac2010", documents, "12345", rate, ["human-B", "human-C"])

    def rated(self, *aspects):
        """Rate everything once, at random."""
        return lambda *_key: [{aspect: self.rng.random() for aspect in aspects}]

    def newsroom_human(self, n_documents=4):
        aspects = ("Coherence", "Fluency", "Informativeness", "Relevance")
        test, rows = [], []
        for j in range(n_documents):
            article, title, reference = self.text(6), f"Title {j}", self.text(2)
            test.append({"title": title, "summary": reference, "text": article, "url": "u"})
            for system in ("lede3", "textrank", "fragments", "abstractive", "pointer_n"):
                n_shared = int(self.rng.integers(2, 10))
                summary = " ".join([*reference.split()[:n_shared], self.text(1)])
                texts = {"ArticleText": article, "SystemSummary": summary, "ArticleTitle": title}
                for _ in range(3):
                    given = {f"{a}Rating": int(self.rng.integers(1, 6)) for a in aspects}
                    rows.append({"ArticleID": j, "System": system} | texts | given)
        self.file("newsroom-human/newsroom-human-eval.csv", pl.DataFrame(rows).write_csv())
        self.file("newsroom-human/test.jsonl", test)

    def pairs(self, n=40):
        for name, file, *columns in (
            ("cnn-dailymail", "train.jsonl", "article", "highlights", "id"),
            ("newsroom", "train.jsonl", "text", "summary", "url"),
            ("bigpatent", "train/a.jsonl", "description", "abstract", "publication_number"),
        ):
            rows = []
            for i in range(n):
                words = self.rng.permutation(WORDS)[:8]
                first = " ".join(words[:4])
                texts = (f"{' '.join(words)}. Then {first}.", f"{first}. No {i}.", f"{name[0]}{i}")
                rows.append(dict(zip(columns, texts, strict=True)))
            self.file(f"{name}/{file}", rows)


@pytest.fixture
def writer(tmp_path):
    return Writer(tmp_path / "data")


def write_vectors(path, seed):
    """Write a GloVe file that knows every word."""
    rng = np.random.default_rng(seed)
    lines = (f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=6))}\n" for word in WORDS)
    path.write_text("".join(lines))
    return path


@pytest.fixture
def vectors(tmp_path):
    return write_vectors(tmp_path / "tiny0.txt", 0)


@pytest.fixture
def made(writer, tmp_path):
    """Make a table from the data that were written; without `encoders`, with tiny ones for all."""

    def call(name, *, encoders=None, **options):
        if encoders is None:
            aliases = [need.name for need in TABLES[name].needs if need.kind == "weights"]
            encoders = {
                alias: f"glove:{write_vectors(tmp_path / f'tiny{i}.txt', i)}"
                for i, alias in enumerate(aliases)
            }
        options |= {"data": writer.root, "out": tmp_path / "out", "encoders": encoders}
        (result,) = reproduce(name, **options)
        return result

    return call
