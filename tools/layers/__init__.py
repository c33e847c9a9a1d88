"""The rules of `check_layers.py`, one file each."""
