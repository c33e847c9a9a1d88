"""The phantom: a library in place of CUDA's below torch, and what Python adds to it."""
