"""Benchmarks: the real programs under load, measured from outside. For developers."""
