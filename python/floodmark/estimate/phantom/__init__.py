"""The phantom: a library that stands for CUDA's below torch, and what Python adds to it."""
