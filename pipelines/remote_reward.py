"""A reward in a Ray actor: it is computed on another core or machine while the learner learns.

`sms.reward` does not know Ray. Start or join a cluster with `ray.init` first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sms.reward import Against, Completion, Reward, candidate_texts, compared_with


class RemoteReward:
    """A `Reward` that lives in an actor; made by `remote_reward`.

    Called like the reward it stands for, by TRL too, it waits for the answer. `start` does not
    wait: the learner goes on and asks `ray.get` when it needs the rewards.
    """

    def __init__(self, actor: Any, reward: Reward) -> None:  # noqa: ANN401  (Ray's handle)
        self._actor, self.__name__ = actor, reward.__name__
        self.bounds, self.higher_is = reward.bounds, reward.higher_is
        self.undefined, self.answer_after = reward.undefined, reward.answer_after
        self._needed = reward.needed

    def __call__(self, *given: Any, **named: Any) -> list[float | None]:  # noqa: ANN401
        """Return the reward of each candidate; see `Reward.__call__`."""
        import ray

        rewards: list[float | None] = ray.get(self.start(*given, **named))
        return rewards

    def start(
        self,
        candidates: Sequence[Completion] | None = None,
        references: Against = None,
        sources: Against = None,
        *,
        completions: Sequence[Completion] | None = None,
        **columns: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401  (Ray's reference)
        """Begin to compute rewards; what is wrong with the input is raised by `ray.get`."""
        # Texts only: a trainer's other arguments may be large, or cannot be sent.
        texts = candidate_texts(candidates, completions, self.answer_after)
        sides = compared_with(self._needed, references, sources, columns)
        return self._actor.of_texts.remote(texts, **sides)

    def counters(self) -> Mapping[str, int]:
        """Return what the actor did so far; see `Reward.counters`."""
        import ray

        counted: Mapping[str, int] = ray.get(self._actor.counters.remote())
        return counted

    def close(self) -> None:
        """End the actor."""
        import ray

        ray.kill(self._actor)

    def __enter__(self) -> RemoteReward:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def remote_reward(reward: Reward, *, num_cpus: float = 1, num_gpus: float = 0) -> RemoteReward:
    """Put a reward into an actor of the Ray cluster that this process has joined.

    The actor takes so much of the cluster, and loads the encoder for itself. Give the reward as
    many `threads` as the actor has cores, and `device="cpu"` where it has no GPU. A scorer that is
    no metric of ours must be picklable. End it with `close`, or use it in a `with` statement.

    Raises
    ------
    RuntimeError
        If this process has joined no cluster.
    """
    import ray

    if not ray.is_initialized():
        raise RuntimeError("no Ray cluster is joined; call `ray.init()` first")
    holder = ray.remote(_Holder).options(num_cpus=num_cpus, num_gpus=num_gpus)
    return RemoteReward(holder.remote(reward), reward)


class _Holder:
    """The actor."""

    def __init__(self, reward: Reward) -> None:
        self._reward = reward

    def of_texts(
        self, texts: list[str | None], references: Against = None, sources: Against = None
    ) -> list[float | None]:
        return self._reward.of_texts(texts, references=references, sources=sources)

    def counters(self) -> dict[str, int]:
        return self._reward.counters()
