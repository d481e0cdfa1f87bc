"""What a worker says when it is started."""

from cluster.serving import Setup, Worker
from tests.cluster.toy_scorer import CannotBeMade, MakeScorer


def test_worker_says_whether_it_sees_the_folder_of_the_run(tmp_path):
    mark = tmp_path / "mark"
    setup = {"make_scorer": MakeScorer(), "versions": {"numpy": "any"}}

    def sees_out(**more):
        return Worker(Setup(**setup, **more)).make_ready().facts.sees_out

    assert not sees_out(mark=str(mark))
    mark.touch()
    assert sees_out(mark=str(mark))
    assert sees_out()  # of a run in a store


def test_worker_on_another_machine_says_versions_and_hashes_even_if_it_has_no_scorer():
    setup = Setup(make_scorer=CannotBeMade(), versions={"numpy": "any"})
    ready = Worker(setup).make_ready()
    assert str(ready.failure) == "no weights"
    assert {*ready.facts.versions} == {"Python", "numpy"}
    assert "cluster" in ready.facts.packages
    assert not Worker(Setup(make_scorer=MakeScorer())).make_ready().facts.versions
