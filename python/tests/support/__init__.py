"""What the tests share: readers, programs, terminals and comparisons."""
