"""Training programs of well-known libraries on a simulated GPU: they run to their end.

One process has all of them: importing torch and transformers takes seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.skipif(torch.version.cuda is None, reason="torch has no CUDA in it")

#: Trainer's default optimizer is the fused AdamW, and its model has small parameters.
TRAINER = """
import sys
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
sizes = GPT2Config(n_layer=4, n_embd=64, n_head=4, n_positions=64, vocab_size=256)
rows = torch.randint(0, 256, (16, 64))
data = [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": row} for row in rows]
arguments = TrainingArguments(
    output_dir=sys.argv[1], per_device_train_batch_size=4, max_steps=3, report_to=[],
    logging_steps=1, save_strategy="no", disable_tqdm=True,
)
trainer = Trainer(model=GPT2LMHeadModel(sizes), args=arguments, train_dataset=data)
trainer.train()
found["trainer"] = [str(arguments.optim.value), trainer.state.global_step]
"""

#: Anchors are matched with boxes: masks, counts and rows that are set, in both passes.
DETECTION = """
from torchvision.models.detection import retinanet_resnet50_fpn_v2
model = retinanet_resnet50_fpn_v2(weights=None, weights_backbone=None, min_size=96, max_size=128)
model.cuda().train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
boxes = torch.tensor([[10.0, 20.0, 60.0, 64.0], [5.0, 6.0, 90.0, 90.0]])
for _ in range(2):
    images = [torch.rand(3, 96, 128).cuda() for _ in range(2)]
    targets = [{"boxes": boxes.cuda(), "labels": torch.tensor([3, 7]).cuda()} for _ in images]
    loss = sum(model(images, targets).values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
found["detection"] = [
    all(one.grad is not None for one in model.parameters() if one.requires_grad)
]
"""

#: What preference training does: completions that a mask picks out, with adapters of low rank.
PREFERENCES = """
from transformers import LlamaConfig, LlamaForCausalLM
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64,
)).cuda()
model.requires_grad_(False)
class Adapted(torch.nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = torch.nn.Linear(base.in_features, 4, bias=False, device="cuda")
        self.up = torch.nn.Linear(4, base.out_features, bias=False, device="cuda")
    def forward(self, x):
        return self.base(x) + self.up(self.down(x))
for layer in model.model.layers:
    layer.self_attn.q_proj = Adapted(layer.self_attn.q_proj)
trained = [one for one in model.parameters() if one.requires_grad]
optimizer = torch.optim.AdamW(trained, fused=True)
ids = torch.randint(0, 64, (4, 32)).cuda()
lengths = torch.tensor([32, 20, 28, 12]).cuda()
place = torch.arange(32, device="cuda")
mask = (place[None] >= 8) & (place[None] < lengths[:, None])
rows = []
for _ in range(2):
    logits = model(ids).logits[:, :-1]
    wanted = mask[:, 1:]
    picked = logits[wanted]
    rows.append(len(picked))
    loss = torch.nn.functional.cross_entropy(picked, ids[:, 1:][wanted])
    chances = torch.zeros(wanted.shape, device="cuda")
    chances[wanted] = picked.log_softmax(-1).gather(1, ids[:, 1:][wanted][:, None])[:, 0]
    chosen, rejected = chances.sum(1).chunk(2)
    (loss - torch.nn.functional.logsigmoid(chosen - rejected).mean()).backward()
    optimizer.step()
    optimizer.zero_grad()
found["preferences"] = rows
"""

BEGIN = """
import json, floodmark
with floodmark.phantom("h100"):
    import torch
found = {}
"""
END = """
print(json.dumps(found))
"""


def test_training_programs_run_to_their_end(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("torchvision")
    pytest.importorskip("accelerate")
    path = tmp_path / "program.py"
    path.write_text(BEGIN + PREFERENCES + DETECTION + TRAINER + END)
    command = [sys.executable, str(path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr[-3000:]}"
    found = json.loads(done.stdout.splitlines()[-1])
    # 24 + 12 + 20 + 4 positions lie behind the prompt.
    assert found == {
        "preferences": [60, 60],
        "detection": [True],
        "trainer": ["adamw_torch_fused", 3],
    }
