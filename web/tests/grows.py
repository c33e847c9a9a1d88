"""Records until a line comes on stdin, a little at a time; says `step` after the first step."""

import sys
import threading

import torch

import floodmark

stopped = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stopped.set()), daemon=True).start()
kept = []
with floodmark.trace(sys.argv[1]):
    while not stopped.wait(0.02):
        kept.append(torch.zeros(64 * 1024))
        floodmark.step()
        if len(kept) == 1:
            print("step", flush=True)
