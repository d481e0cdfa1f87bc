"""Small made-up data sets in the formats of their owners, and tiny weights."""

import csv
import json

import numpy as np
import pytest

from pipelines.papers import run as module
from pipelines.papers.needs import WeightsNeed

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

    def chaganty2018(self, n_documents=6):
        tasks, ratings, articles = [], [], []
        for i in range(n_documents):
            articles.append({"id": f"a{i}", "text": self.text(6)})
            for system in ("reference", "seq2seq", "pointer", "ml"):
                contents = {"id": f"a{i}", "system": system, "text": self.text()}
                tasks.append({"input": {"contents": contents}, "output": {}})
                # One summary has one judge only, and is not in the study.
                judges = [0.5] if (i, system) == (0, "ml") else self.rng.random(2).tolist()
                prompts = {
                    aspect: {"human": judges}
                    for aspect in ("overall", "grammar", "redundancy", "hter")
                }
                ratings.append({"id": f"a{i}", "system": system, "prompts": prompts})
        self.file("chaganty2018/articles.jsonl", articles)
        self.file("chaganty2018/tasks.jsonl", tasks)
        self.file("chaganty2018/lqual.jsonl", ratings)

    def asap_sas(self, n_essays=12):
        lines = ["Id\tEssaySet\tScore1\tScore2\tEssayText"]
        for i in range(n_essays):
            # Two are shorter than the essays of the study.
            text = self.text(2 if i < 2 else 5 + i % 3)
            lines.append(f"{i}\t3\t{self.rng.integers(4)}\t{self.rng.integers(4)}\t{text}")
        self.file("asap-sas/train_rel_2.tsv", "\n".join(lines) + "\n")
        self.file("asap-sas/sample.txt", self.text(6))

    def duc2002(self, systems=("1", "15", "16", "18", "19", "17", "30"), n_documents=4):
        table, models = "Explanations\n\n", ""
        for j in range(n_documents):
            document = f"AP88{j:04d}-0016"
            body = f"<DOC>\n<TEXT>\n{self.text(8)}\n</TEXT>\n</DOC>\n"
            self.file(f"duc2002/docs/d061j/{document}.S", body)
            models += (
                f'<SUM DOCSET="d061" TYPE="PERDOC" DOCREF="{document}" SIZE="100" '
                f'SUMMARIZER="J">\n{self.text(3)}</SUM>\n'
            )
            for system in systems:
                sentence = f'<a name="1">[1]</a> <a href="#1" id=1>{self.text(3)}</a>'
                name = f"D061.P.100.J.{system}.{document}.html"
                self.file(f"duc2002/SEEpeers/{name}", f"<html><body>{sentence}</body></html>")
                table += (
                    f"D061 P {document} 100  47 J   I I  {system}     2  0 0 0 0 0   0 0 0 1 0 1 - "
                    f"  0.00     5     5     0     7   {self.rng.random():.3f} 0.600 0.400   "
                    "0.287 0.420 0.267\n"
                )
        self.file("duc2002/extracts_abstracts/d061ji/perdocs", models)
        self.file("duc2002/results/short.results.table", table)

    def duc2001(self, systems=("1", "A1", "B2", "C3", "D4"), n_documents=4):
        table, models = "", ""
        for j in range(n_documents):
            document = f"AP89{j:04d}-0016"
            body = f"<DOC>\n<TEXT>\n{self.text(8)}\n</TEXT>\n</DOC>\n"
            self.file(f"duc2001/docs/d04a/{document}", body)
            models += f'<SUM DOCSET="d04" DOCREF="{document}">\n{self.text(3)}</SUM>\n'
            for system in systems:
                sentence = f'<a name="1">[1]</a> <a href="#1" id=1>{self.text(3)}</a>'
                name = f"D04.P.100.A.{system}.{document}.html"
                self.file(f"duc2001/peers/{name}", f"<html><body>{sentence}</body></html>")
                units = "   ".join(f"{k} {self.rng.integers(5)} -" for k in range(2))
                table += (
                    f"D04 P {document} 100 A  A A {system}  3 2 2  0 4 0    2   2   1   {units}\n"
                )
        self.file("duc2001/original.summaries/d04aa/perdocs", models)
        self.file("duc2001/results1_table.txt", table)

    def newsroom_human(self, n_documents=4):
        path = self.root / "newsroom-human" / "newsroom-human-eval.csv"
        path.parent.mkdir()
        aspects = ("Coherence", "Fluency", "Informativeness", "Relevance")
        test = []
        with path.open("w", newline="", encoding="utf-8") as stream:
            rows = csv.writer(stream)
            columns = ["ArticleID", "System", "ArticleText", "SystemSummary", "ArticleTitle"]
            rows.writerow([*columns, *(f"{aspect}Rating" for aspect in aspects)])
            for j in range(n_documents):
                article, title, reference = self.text(6), f"Title {j}", self.text(2)
                test.append({"title": title, "summary": reference, "text": article, "url": "u"})
                for system in ("lede3", "textrank", "fragments", "abstractive", "pointer_n"):
                    n_shared = int(self.rng.integers(2, 10))
                    summary = " ".join([*reference.split()[:n_shared], self.text(1)])
                    for _ in range(3):
                        given = self.rng.integers(1, 6, size=4).tolist()
                        rows.writerow([j, system, article, summary, title, *given])
        self.file("newsroom-human/test.jsonl", test)

    def tac2010(self, n_sets=4, systems=("1", "2", "3", "4", "5")):
        peers, models = "", ""
        for i in range(n_sets):
            task = f"D10{i:02d}"
            for part in "AB":
                for k in range(2):
                    body = f'<DOC id="X" type="story" >\n<TEXT>\n{self.text(4)}</TEXT>\n</DOC>\n'
                    self.file(f"tac2010/docs/{task}A/{task}A-{part}/XIN_{k}", body)
            for system in systems:
                self.file(f"tac2010/ROUGE/peers/{task}-A.M.100.A.{system}", self.text(3))
                given = self.rng.integers(1, 6, size=2).tolist()
                share = f"{self.rng.random():.3f}"
                peers += (
                    f"{task}-A\t{system}\t{share}\t5\t0\tA\tA\t{share}\t{given[0]}\t{given[1]}\n"
                )
            for writer in "BC":
                self.file(f"tac2010/ROUGE/models/{task}-A.M.100.A.{writer}", self.text(3))
                models += f"{task}-A\t{writer}\t16\tA\tA\t0.9\t5\t4\n"
        self.file("tac2010/manual/manual.peer.A", peers)
        self.file("tac2010/manual/manual.model.A", models)

    def pairs(self, n=40):
        def texts():
            drawn = self.rng.permutation(WORDS)[:8]
            return f"{' '.join(drawn)}. Then {' '.join(drawn[:4])}.", f"{' '.join(drawn[:4])}."

        rows = [(*texts(), i) for i in range(n)]
        self.file(
            "cnn-dailymail/train.jsonl",
            [{"article": a, "highlights": f"{b} No {i}.", "id": f"c{i}"} for a, b, i in rows],
        )
        rows = [(*texts(), i) for i in range(n)]
        self.file(
            "newsroom/train.jsonl",
            [{"text": a, "summary": f"{b} No {i}.", "url": f"n{i}"} for a, b, i in rows],
        )
        rows = [(*texts(), i) for i in range(n)]
        self.file(
            "bigpatent/train/a.jsonl",
            [
                {"description": a, "abstract": f"{b} No {i}.", "publication_number": f"p{i}"}
                for a, b, i in rows
            ],
        )


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
def substitutes(tmp_path, vectors):
    """Return tiny vectors for every encoder of a table, others for each; the first are known."""

    def of(name):
        needs = [n for n in module.TABLES[name].needs if isinstance(n, WeightsNeed)]
        for i in range(1, len(needs)):
            write_vectors(tmp_path / f"tiny{i}.txt", i)
        return {need.alias: f"glove:{tmp_path / f'tiny{i}.txt'}" for i, need in enumerate(needs)}

    return of


@pytest.fixture
def made(writer, substitutes, tmp_path):
    """Make a table from the data that were written, with tiny weights."""

    def call(name, *, encoders=None, **options):
        (result,) = module.reproduce(
            name,
            data=writer.root,
            out=tmp_path / "out",
            encoders=substitutes(name) if encoders is None else encoders,
            **options,
        )
        return result

    return call
