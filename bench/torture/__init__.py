"""Attempts to break the recorder and the readers: many, random, and counted.

`make torture` runs all parts and writes `bench/results/torture.md`; `--part` chooses some.
Nothing is tried twice.
"""
