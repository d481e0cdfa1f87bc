"""The folder of a run: what was asked for, how far it is, what became of each shard."""
