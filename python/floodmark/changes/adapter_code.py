"""The code of adapters: LoRA, DoRA and QLoRA on the `Linear` of some blocks, in plain torch.

An adapter is two parameters of the `Linear` that it belongs to, and a hook: the weight keeps its
name, and other code may still read it. What is printed is what runs. Knows nothing of changes.
"""

from __future__ import annotations

_FIND = """\
def linears_of(blocks):
    # `MultiheadAttention` reads the weight of its own kind of `Linear`, and does not call it
    uncalled = torch.nn.modules.linear.NonDynamicallyQuantizableLinear
    found = dict.fromkeys(
        module
        for block in blocks
        for module in block.modules()
        if isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"
    )
    return [one for one in found if one.weight.requires_grad and not isinstance(one, uncalled)]

def rows_of_outputs(linear):
    is_transposed = type(linear).__name__ == "Conv1D"  # as GPT-2 has it
    return linear.weight.detach().T if is_transposed else linear.weight.detach()

def product(linear, x):
    low = torch.nn.functional.linear(x, linear.lora_a) * 2.0  # alpha is twice the rank
    return torch.nn.functional.linear(low, linear.lora_b)

"""

_LORA = """\
def adapted(linear, args, kwargs, output):
    return output + product(linear, *args, *kwargs.values())

"""

_DORA = """\
def adapted(linear, args, kwargs, output):
    total = output + product(linear, *args, *kwargs.values())
    ratio = (linear.magnitude / lengths(linear)).to(total.dtype)
    bias = 0.0 if linear.bias is None else (1 - ratio) * linear.bias.to(total.dtype)
    return ratio * total + bias  # without the bias, each row has the length `magnitude`

@torch.no_grad()
def lengths(linear):
    weight = rows_of_outputs(linear)
    with torch.autocast(weight.device.type, enabled=False):
        both = torch.addmm(weight, linear.lora_b, linear.lora_a, alpha=2.0)
        return torch.linalg.vector_norm(both, dim=1)

"""

_QLORA = """\
def in_4_bits(model, linear):
    weight = rows_of_outputs(linear)
    compressed = bitsandbytes.nn.Linear4bit(
        weight.shape[1], weight.shape[0], linear.bias is not None,
        compute_dtype=weight.dtype, quant_type="nf4", device="meta",
    )
    compressed.weight = bitsandbytes.nn.Params4bit(
        weight.contiguous(), quant_type="nf4", module=compressed
    ).to(weight.device)
    compressed.bias = linear.bias
    for parent in model.modules():
        for name, child in parent.named_children():
            if child is linear:
                setattr(parent, name, compressed.train(linear.training))
    linear.weight.data = linear.weight.data.new_empty(0)  # free it, also where a list has it
    return compressed

"""

_ADD = """\
def add_adapters(model, linears, rank):
    model.requires_grad_(False)
    added = []
    for linear in linears:
        weight = rows_of_outputs(linear)
        outputs, inputs = weight.shape
        first, second = weight.new_empty(rank, inputs), weight.new_zeros(outputs, rank)
{quantize}        torch.nn.init.kaiming_uniform_(first, a=5**0.5)
        linear.lora_a, linear.lora_b = torch.nn.Parameter(first), torch.nn.Parameter(second)
{magnitude}        added.append((linear, linear.register_forward_hook(adapted, with_kwargs=True)))
    return added

"""

_MAGNITUDE = """\
        linear.magnitude = torch.nn.Parameter(lengths(linear))
"""

_QUANTIZE = """\
        del weight
        linear = in_4_bits(model, linear)
"""


def code_of(kind: str) -> str:
    """What defines `linears_of` and `add_adapters` for a kind of adapters."""
    if kind == "lora":
        return _FIND + _LORA + _ADD.format(quantize="", magnitude="")
    if kind == "dora":
        return _FIND + _DORA + _ADD.format(quantize="", magnitude=_MAGNITUDE)
    imported = "import bitsandbytes\n\n"
    return imported + _FIND + _LORA + _QLORA + _ADD.format(quantize=_QUANTIZE, magnitude="")
