"""Rollouts: captured graphs, shards of the batch, memory plan, threads."""
