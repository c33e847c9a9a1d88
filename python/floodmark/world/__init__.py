"""One rank of a world of many, in one process: stores, collectives, `DistributedDataParallel`."""
