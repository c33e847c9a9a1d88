"""Values that a program reads: computed on the host, given by the user, or assumed."""
