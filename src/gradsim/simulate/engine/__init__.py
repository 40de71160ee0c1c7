"""Rollouts: captured graphs, shards of the batch, memory plans, threads."""
