"""A program that uses torch says the same with and without the recorder."""

from __future__ import annotations

from pathlib import Path

from support.transparency import Case, assert_same

PROGRAM = """
import copy, dataclasses, io, pickle, sys, warnings
print("torch" in sys.modules, [type(finder).__name__ for finder in sys.meta_path][-3:])
import torch
from torch.utils.data import DataLoader, Dataset
print(torch.__loader__, torch.__spec__, [type(finder).__name__ for finder in sys.meta_path])

@dataclasses.dataclass
class Settings:
    width: int = 4
    rate: float = 0.1

class Numbers(Dataset):
    def __len__(self): return 8
    def __getitem__(self, at): return torch.full((4,), float(at))

class Net(torch.nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        self.layer = torch.nn.Linear(settings.width, 1)
    def forward(self, x):
        if x.shape[0] == 3:
            warnings.warn("three", stacklevel=2)
        return self.layer(x).relu()

def main():
    torch.manual_seed(0)
    net = Net(Settings())
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    for batch in DataLoader(Numbers(), batch_size=3, shuffle=True, num_workers=1):
        optimizer.zero_grad()
        loss = net(batch).sum()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
    file = io.BytesIO()
    torch.save({"net": net, "settings": Settings()}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    print(loaded["settings"], type(loaded["net"]).__module__, len(pickle.dumps(net)) > 0)
    print(copy.deepcopy(net.state_dict())["layer.weight"])
    print([field.type for field in dataclasses.fields(Settings)], threading_names())
    with torch.profiler.profile() as profile:
        net(torch.ones(2, 4))
    print(sorted({event.name for event in profile.events() if event.name.startswith("aten::")}))
    net(torch.ones(2, 5))

def threading_names():
    import threading
    # The thread of a loader's queue ends some time after its loader.
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name != "QueueFeederThread"]

if __name__ == "__main__":
    main()
"""


def test_a_training_program_says_the_same(tmp_path: Path) -> None:
    # What torch's profiler logs begins with the time and the process.
    varies = rb"\d+-\d+-\d+ \d+:\d+:\d+ \d+:\d+"
    ended = assert_same(tmp_path, Case(PROGRAM, varies=varies))
    assert ended.status == 1
    assert "mat1 and mat2 shapes cannot be multiplied" in ended.err
    assert "UserWarning: three" in ended.err


#: The recorder names what runs on the threads while the main one waits, and is not done at the end.
NAMED_AT_THE_END = """
import threading, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(2_000)])
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

nets = [type(f"Net{number}", (Net,), {})() for number in range(4)]
is_over = threading.Event()

def work():
    for net in nets:
        if not is_over.is_set():
            net(torch.ones(1, 2))

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
is_over.wait(0.1)
is_over.set()
for thread in threads:
    thread.join()
print("end", threading.active_count())
"""


def test_a_program_may_end_while_modules_get_their_names(tmp_path: Path) -> None:
    assert_same(tmp_path, Case(NAMED_AT_THE_END))
