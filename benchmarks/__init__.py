"""Benchmarks of gradsim, timed in the same run as the peers they are compared with.

Run from the root of a checkout: `python -m benchmarks --help`, or `make bench` for all of them.
"""
