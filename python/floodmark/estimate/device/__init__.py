"""The phantom's library and the simulated GPU of this process, used by both engines."""
