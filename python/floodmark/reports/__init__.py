"""Reports: questions about a trace, with their answers as Python values.

The public names are those of `floodmark`; modules in this package may change.
"""
