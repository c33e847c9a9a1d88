"""The phantom's library in this process, and the GPU that it simulates: what both engines use."""
