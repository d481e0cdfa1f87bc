"""A reward in a Ray actor: the same rewards, computed beside the learner."""

import pytest

from pipelines.remote_reward import remote_reward
from sms.reward import Reward

pytestmark = [pytest.mark.ray, pytest.mark.slow]

CANDIDATES = ["The bridge is closed.", "A cat sat.", ""]
REFERENCES = ["The bridge will close."] * 3


def test_without_a_cluster_says_what_to_do():
    with pytest.raises(RuntimeError, match=r"no Ray cluster is joined; call `ray.init\(\)` first"):
        remote_reward(Reward("rouge1_f"))


@pytest.fixture(scope="module")
def ray():
    from cluster import ray_cluster  # before Ray: it sets the environment

    ray = ray_cluster.ray
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def here():
    return Reward("sms", device="cpu", threads=1)


@pytest.fixture(scope="module")
def remote(ray, here):
    with remote_reward(here) as remote:
        yield remote


def test_remote_rewards_are_those_of_this_process(ray, remote, here):
    expected = here(CANDIDATES, references=REFERENCES)
    assert remote(CANDIDATES, references=REFERENCES) == expected
    assert ray.get([remote.start(CANDIDATES, REFERENCES) for _ in range(3)]) == [expected] * 3
    assert (remote.bounds, remote.undefined, remote.__name__) == ((0.0, 1.0), 0.0, "sms")
    assert remote.counters()["undefined"] == 4


def test_remote_reward_is_called_as_trl_does(remote, here):
    chats = [[{"role": "assistant", "content": text}] for text in CANDIDATES]
    rewards = remote(
        prompts=[""] * 3,
        completions=chats,
        references=REFERENCES,
        trainer_state=(cannot_be_sent for cannot_be_sent in ()),
    )
    assert rewards == here(CANDIDATES, references=REFERENCES)
