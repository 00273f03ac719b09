"""Tests of torchcoreset: folders mirror the package; `python -m tests.benchmarks` measures."""
