"""Recordings: start, stop, steps, names of modules and tensors, and `floodmark run`.

The public names are those of `floodmark`; modules in this package may change.
"""
