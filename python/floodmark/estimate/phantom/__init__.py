"""The phantom engine: a library replaces CUDA's below torch; Python adds the rest."""
