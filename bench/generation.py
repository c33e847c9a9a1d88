"""What generation costs on a simulated GPU: CPU seconds, beside those of the host.

    python bench/generation.py

One process, one model with random weights: 24 tokens, several times, on the CPU and then on a
simulated GPU. On the host the kernels of so small a model take less than the Python code that
starts them, so the ratio is that of the cost of a call. Exit status 1 when it is above the budget.
"""

from __future__ import annotations

import time
from typing import Any

import machine

import floodmark

MOST_RATIO = 3.0
REPEATS, TOKENS, PROMPT = 4, 24, 16

SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled, top-k and top-p": {"do_sample": True, "top_k": 50, "top_p": 0.9},
}


def main() -> int:
    args = machine.arguments(__doc__).parse_args()
    with floodmark.phantom("h100"):
        import torch
    import transformers

    torch.set_num_threads(1)
    config = transformers.LlamaConfig(
        vocab_size=32_000,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=12,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
    )
    model = transformers.LlamaForCausalLM(config).eval()

    def fastest(device: str) -> dict[str, float]:
        model.to(device)
        prompt = torch.randint(2, 1024, (1, PROMPT), device=device)

        def seconds(options: dict[str, Any]) -> float:
            before = time.process_time()
            tokens = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=TOKENS,
                min_new_tokens=TOKENS,
                pad_token_id=0,
                **options,
            )
            if tokens.shape[1] != PROMPT + TOKENS:
                raise SystemExit(f"{tokens.shape[1] - PROMPT} tokens instead of {TOKENS}")
            return time.process_time() - before

        found = {}
        for name, options in SEARCHES.items():
            seconds(options)
            found[name] = min(seconds(options) for _ in range(REPEATS))
        return found

    host, simulated = fastest("cpu"), fastest("cuda")
    rows = [
        {
            "search": name,
            "host_cpu_seconds": round(host[name], 3),
            "simulated_cpu_seconds": round(simulated[name], 3),
            "ratio": round(simulated[name] / host[name], 2),
        }
        for name in SEARCHES
    ]
    for row in rows:
        print(row, flush=True)
    about = machine.describe()
    # The GPU is simulated.
    about = {key: value for key, value in about.items() if key not in ("gpu", "cuda")}
    head = ["search", "host, CPU seconds", "simulated GPU, CPU seconds", "ratio"]
    lines = [[str(cell) for cell in row.values()] for row in rows]
    parts = [
        f"{machine.sentence(about)}. transformers {transformers.__version__}, 12 layers, 64 "
        f"channels, a vocabulary of 32,000, {TOKENS} tokens, the fastest of {REPEATS} runs.",
        machine.table(head, lines),
    ]
    verdicts = [
        (
            f"{name}: {simulated[name] / host[name]:.2f} × the host (at most {MOST_RATIO:g} ×)",
            simulated[name] <= MOST_RATIO * host[name],
        )
        for name in SEARCHES
    ]
    title = "What generation costs on a simulated GPU"
    result = {"machine": about, "rows": rows}
    return machine.finish("generation", title, parts, verdicts, result, args.results)


if __name__ == "__main__":
    raise SystemExit(main())
