"""DUC 2001, DUC 2002 and TAC 2010, as NIST lays them out."""

import fnmatch

import pytest

from pipelines.datasets.rows import human
from pipelines.papers.table import HUMAN_SYSTEMS

from .conftest import tar_of

AP_DOCUMENT = """<DOC>
<DOCNO> AP880911-0016 </DOCNO>
<HEAD>Not the text</HEAD>
<TEXT>
<s docid="AP880911-0016" num="1" wdcount="3"> A ship sank.</s>
<s docid="AP880911-0016" num="2" wdcount="4"> AT&amp;T said
so.</s>
</TEXT>
</DOC>
"""
SJMN_DOCUMENT = """<DOC>
<DOCNO> SJMN91-1 </DOCNO>
<LEADPARA> A tug came. </LEADPARA>
<SECTION> Front </SECTION>
<TEXT> It saved nine. </TEXT>
</DOC>
"""


def see(*sentences):
    body = "\n".join(
        f'<a name="{i}">[{i}]</a> <a href="#{i}" id={i}>{text}</a>'
        for i, text in enumerate(sentences, start=1)
    )
    return f"<html>\n<head><title>peer</title></head>\n<body bgcolor=white>\n{body}\n</body></html>"


def model(text, document=None):
    docref = f'DOCREF="{document}"\n' if document else ""
    return (
        f'<SUM\nDOCSET="d061"\nTYPE="PERDOC"\n{docref}SIZE="100"\nSUMMARIZER="J">\n{text}</SUM>\n'
    )


def judgement_2002(
    docset, kind, document, length, peer, coverage, questions="2  0 0 0 0 0   0 0 0 1 0 1 -"
):
    return (
        f"{docset} {kind} {document} {length}  47 J   I I  {peer}     {questions} "
        f"  0.00     5     5     0     7   {coverage} 0.600 0.400   0.287 0.420 0.267\n"
    )


def duc2002_files():
    table = "Explanations:\n D061 is a document set\n\n" + "".join(
        [
            judgement_2002("D061", "M", "-" * 15, "050", "19", "0.400"),
            judgement_2002("D061", "P", "AP880911-0016", "100", "1", "0.250"),
            judgement_2002("D061", "M", "-" * 15, "050", "J", "0.900"),
        ]
    )
    return {
        "docs.with.sentence.breaks/d061j/AP880911-0016.S": AP_DOCUMENT,
        "docs.with.sentence.breaks/d061j/SJMN91-1.S": SJMN_DOCUMENT,
        "extracts_abstracts/d061ji/50": model("A tug <b>saved</b>\nnine."),
        "extracts_abstracts/d061jj/50": model("Nine were saved."),
        "extracts_abstracts/d061ji/perdocs": model("Ship sank.", "AP880911-0016"),
        "extracts_abstracts/d061ji/200e": "<s docid='SJMN91-1' num='1'>It saved nine.</s>",
        "SEEpeers/D061.M.050.J.19.html": see("The tug.", "It &amp; nine."),
        "SEEpeers/D061.P.100.J.1.AP880911-0016.html": see("A ship sank."),
        "results/short.results.table": table,
    }


@pytest.fixture
def duc2002(importing, write):
    """The collection as a folder, with the documents in an archive within an archive."""
    files = duc2002_files()
    inner = {name: text for name, text in files.items() if name.startswith("docs.")}
    packed = {"DUC2002/duc2002testdocswithsentences.tar.gz": tar_of(inner)}
    folder = write("DUC2002_Summarization_Documents.tgz", tar_of(packed)).parent
    for name in files.keys() - inner.keys():
        write(name, files[name])
    return importing("duc2002", folder, ratings=True)


def test_duc2002_multi_document_by_hand(duc2002):
    peer = duc2002.row("19", "d061.M.050")
    assert peer["candidate"] == "The tug. It & nine."
    assert peer["references"] == ["A tug saved nine.", "Nine were saved."]
    assert peer["source"] == ["A ship sank. AT&T said so.", "A tug came. It saved nine."]


def test_person_is_marked_and_compared_with_the_others(duc2002):
    row = duc2002.row("human-I", "d061.M.050")
    assert (row["candidate"], row["references"]) == ("A tug saved nine.", ["Nine were saved."])
    assert "Written by people: human-I, human-J." in duc2002.said


def test_filters_of_the_papers_know_our_people():
    assert all(fnmatch.fnmatchcase(human(letter), HUMAN_SYSTEMS[0]) for letter in "AJ")


def test_duc2002_single_document_by_hand(duc2002):
    assert duc2002.row("1") == {
        "document_id": "d061.P.AP880911-0016",
        "system_id": "1",
        "candidate": "A ship sank.",
        "references": ["Ship sank."],
        "source": ["A ship sank. AT&T said so."],
    }


def test_duc2002_judgements_by_hand(duc2002):
    found = duc2002.ratings.rows(named=True)
    keys = [(row["document_id"], row["system_id"], row["coverage"]) for row in found]
    assert keys == [
        ("d061.M.050", "19", 0.4),
        ("d061.P.AP880911-0016", "1", 0.25),
        ("d061.M.050", "human-J", 0.9),
    ]
    first = found[0]
    assert (first["coverage_median"], first["length_adjusted_coverage"]) == (0.6, 0.287)
    assert [first[f"question_{i}"] for i in (1, 9, 10, 12)] == [0, 1, 0, None]


def test_summaries_without_their_documents_have_no_source(importing, write):
    files = {k: text for k, text in duc2002_files().items() if not k.startswith("docs.")}
    found = importing("duc2002", write("duc2002.tgz", tar_of(files)))
    assert found.corpus["source"].to_list() == [None] * found.corpus.height
    assert "Left out: 2, sources: a summary's documents are not among the files." in found.said


def test_duc2002_row_of_another_layout_named(refused, write):
    text = "Explanations\n\nD061 M --------------- 050 A  A A 1  3 2 2  0 4 0\n"
    said = refused("duc2002", write("short.results.table", text))
    assert "short.results.table, line 3 must be a judgement of this year's layout" in said


def test_files_of_no_use_beside_the_others_are_passed_over(importing, refused, write):
    extracts = "results/extracts/extracts.results.table"
    files = duc2002_files() | {
        extracts: "D061 M 200 E 19 J 1 2 3 4 5 0.1 0.2\n",
        "docs.with.sentence.breaks/d061j/.DS_Store": b"\x00\x00\x00\x01Bud1",
    }
    found = importing("duc2002", write("duc2002.tgz", tar_of(files)), ratings=True)
    assert found.ratings.height == 3
    assert "`FILES` of duc2002 must be" in refused("duc2002", write(extracts, files[extracts]))


def test_second_and_empty_models_are_counted(importing, write):
    files = duc2002_files()
    document = "AP880911-0016"
    files["extracts_abstracts/d061ji/perdocs"] = "".join(
        [model("Ship sank.", document), model("Ship sank.", document), model("Sunk.", document)]
    )
    files["extracts_abstracts/d061jj/perdocs"] = model(" ", document)
    files["SEEpeers/D061.P.100.J.J.AP880911-0016.html"] = see()
    found = importing("duc2002", write("duc2002.tgz", tar_of(files)))
    assert found.row("1")["references"] == ["Ship sank."]
    assert "Left out: 1, texts that differ from those the candidate already had" in found.said
    assert "Left out: 2, models without a text." in found.said


def test_summary_of_one_document_names_it(refused, write):
    said = refused("duc2002", write("D061.P.100.J.1.html", see("It sank.")))
    assert "D061.P.100.J.1.html must name its document" in said


def test_duc2001_by_hand(importing, write):
    # The row of the table is built like one that a public script quotes.
    row = "D04 M --------------- 050 A  A A 1  3 2 2  0 4 0    2   2   1   0 0 -   1 2 1\n"
    root = "DUC2001_Summarization_Documents/data"
    files = {
        f"{root}/test/docs/d04a/AP880911-0016": AP_DOCUMENT,
        f"{root}/test/docs/d04a/FBIS-41815~": "an editor's copy",
        f"{root}/test/original.summaries/d04aa/50": model("A tug saved nine."),
        # In one file of the collection a tag is not closed.
        f"{root}/test/duplicate.summaries/d04ab/perdocs": model("Sank.", "AP880911-0016").replace(
            '"J">', '"J"'
        ),
        f"{root}/training/d01a/docs/AP1": AP_DOCUMENT,
        f"{root}/training/d01a/d01aa/50": model("Of another year."),
        f"{root}/training/d01a/d01aa/perdocs": model("Of another year.", "AP1"),
        "peers/D04.M.050.A.1.html": see("The tug."),
        "results1_table.txt": row,
    }
    found = importing("duc2001", write("duc2001.tgz", tar_of(files)), ratings=True)
    assert [(row["document_id"], row["system_id"]) for row in found.corpus.rows(named=True)] == [
        ("d04.M.050", "1"),
        ("d04.M.050", "human-A"),
        ("d04.P.AP880911-0016", "human-B"),
    ]
    assert found.row("human-B")["candidate"] == "Sank."
    assert "Left out: 2, models of training sets, which no system summarised." in found.said
    # Coverage: model units 0 and 2 of 4, so 1 on average.
    assert found.ratings.rows() == [("d04.M.050", "1", 1.0, 3.0, 2.0, 2.0)]


def test_order_in_an_archive_does_not_matter(importing, write):
    files = duc2002_files()
    there = importing("duc2002", write("there.tgz", tar_of(files)))
    back = importing("duc2002", write("back.tgz", tar_of(dict(reversed(files.items())))))
    assert there.corpus.equals(back.corpus)


def tac_document(kind, text):
    headline = "<HEADLINE>\nNot it\n</HEADLINE>"
    return f'<DOC id="X" type="{kind}" >\n{headline}\n<TEXT>\n{text}</TEXT>\n</DOC>\n'


def tac_files():
    rouge = "GuidedSumm2010_eval/ROUGE"
    manual = "GuidedSumm2010_eval/manual"
    return {
        "GuidedSumm10_test_docs_files/D1001A/D1001A-A/XIN_ENG_20041113.0001": tac_document(
            "story", "<P>\nA ship sank.\n</P>\n<P>\nNine saved.\n</P>\n"
        ),
        "GuidedSumm10_test_docs_files/D1001A/D1001A-B/XIN_ENG_20041213.0001": tac_document(
            "other", "The tug again.\n"
        ),
        f"{rouge}/models/D1001-A.M.100.A.B": "A tug saved nine.\n",
        f"{rouge}/models/D1001-A.M.100.A.C": "Nine were\nsaved.\n",
        f"{rouge}/peers/D1001-A.M.100.A.1": "A ship.\n",
        f"{rouge}/peers/D1001-A.M.100.A.22": "R&D at caf\xe9".encode("latin-1"),
        "GuidedSumm2010_eval/BE/peers/D1001-A.M.100.A.1": "cut up",
        f"{manual}/manual.peer.A": "D1001-A\t1\t0.286\t5\t0\tA\tA\t0.276\t4\t2\n",
        f"{manual}/manual.model.A": "D1001-A\tB\t16\tA\tA\t0.905\t5\t4\n",
        f"{manual}/README.txt": "explains",
    }


@pytest.fixture
def tac2010(importing, write):
    return importing("tac2010", write("tac2010.tgz", tar_of(tac_files())), ratings=True)


def test_tac2010_by_hand(tac2010):
    assert tac2010.corpus["system_id"].to_list() == ["1", "22", "human-B", "human-C"]
    assert tac2010.row("1") == {
        "document_id": "D1001-A",
        "system_id": "1",
        "candidate": "A ship.",
        "references": ["A tug saved nine.", "Nine were saved."],
        "source": ["A ship sank. Nine saved."],
    }
    assert tac2010.row("22")["candidate"] == "R&D at caf\xe9"
    assert tac2010.row("human-C")["references"] == ["A tug saved nine."]


def test_tac2010_scores_by_hand(tac2010):
    assert tac2010.ratings.sort("system_id").rows(named=True) == [
        {
            "document_id": "D1001-A",
            "system_id": "1",
            "pyramid": 0.286,
            "pyramid_jackknife": 0.276,
            "linguistic_quality": 4.0,
            "overall": 2.0,
        },
        {
            "document_id": "D1001-A",
            "system_id": "human-B",
            "pyramid": None,
            "pyramid_jackknife": 0.905,
            "linguistic_quality": 5.0,
            "overall": 4.0,
        },
    ]


def test_tac2010_line_with_other_columns_named(refused, write):
    said = refused("tac2010", write("manual/manual.peer.A", "D1001-A\t1\t0.286\n"))
    assert "manual.peer.A, line 1 must have 10 columns, got 3" in said


def test_system_that_wrote_nothing_is_kept(importing, write):
    tac = tac_files() | {"GuidedSumm2010_eval/ROUGE/peers/D1001-A.M.100.A.3": "\n"}
    found = importing("tac2010", write("tac2010.tgz", tar_of(tac)))
    assert found.row("3")["candidate"] == ""
    duc = duc2002_files() | {"SEEpeers/D061.M.050.J.20.html": see()}
    found = importing("duc2002", write("duc2002.tgz", tar_of(duc)))
    assert found.row("20")["candidate"] == ""


def test_summary_that_cannot_be_read_named(refused, write):
    said = refused("tac2010", write("models/D1001-A.M.100.A.B", "\n"))
    assert "models/D1001-A.M.100.A.B must have a text, got none" in said
    page = see("It sank.").replace("id=", "key=")
    said = refused("duc2002", write("D061.M.050.J.20.html", page))
    assert "must have sentences in <a id=...>, got none" in said
