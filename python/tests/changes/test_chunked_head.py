"""The head and the loss in chunks: the loss and every gradient are those of the whole logits."""

from __future__ import annotations

import copy
import gc
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from floodmark import changes

CLASSES = 20_000


class Model(nn.Module):
    def __init__(self, *, width=16, bias=False, tied=False, cap=0.0, scale=1.0) -> None:
        super().__init__()
        self.tokens = nn.Embedding(CLASSES, width)
        self.body = nn.Linear(width, width)
        self.head = nn.Linear(width, CLASSES, bias=bias)
        if tied:
            self.head.weight = self.tokens.weight
        self.cap, self.scale = cap, scale

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.head(torch.tanh(self.body(self.tokens(tokens)))) * self.scale
        return self.cap * torch.tanh(logits / self.cap) if self.cap else logits


def batch(*shape):
    torch.manual_seed(7)
    tokens, target = torch.randint(0, CLASSES, (2, *shape)).unbind()
    target.flatten()[::5] = -100
    return tokens, target


def flat(logits, target, **options):
    return F.cross_entropy(logits.view(-1, CLASSES), target.view(-1), **options)


def trained(model, loss_of, *, backward=None):
    """The loss, and every gradient."""
    model.zero_grad(set_to_none=True)
    loss = loss_of(model)
    (backward or torch.Tensor.backward)(loss)
    gradients = {name: one.grad for name, one in model.named_parameters() if one.requires_grad}
    return loss.detach(), gradients


def compare(model, loss_of, *, rounding=1e-5, refused="", **options):
    """Both ways, with and without the change; what it says."""
    whole = trained(model, loss_of, **options)
    with changes.apply_changes(["chunked-loss=head"]) as applied:
        chunked = trained(model, loss_of, **options)
    (report,) = applied.reports()
    assert chunked[0].dtype == whole[0].dtype
    assert chunked[1].keys() == whole[1].keys()
    for name, gradient in (*whole[1].items(), ("loss", whole[0])):
        other = chunked[0] if name == "loss" else chunked[1][name]
        assert torch.equal(other.isnan(), gradient.isnan()), name
        wrong = (other - gradient).nan_to_num().double().norm()
        assert wrong <= rounding * gradient.nan_to_num().double().norm(), name
    assert refused in report["reason"]
    assert bool(report["target"]) is not bool(refused), report["reason"]
    assert all("forward" not in vars(one) for one in model.modules())
    return report


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("cap", [0.0, 0.3])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_plain_loop_has_the_same_loss_and_gradients(tied, bias, cap, reduction):
    torch.manual_seed(0)
    tokens, target = batch(4, 20)
    report = compare(
        Model(bias=bias, tied=tied, cap=cap, scale=1.5),
        lambda model: 3 * flat(model(tokens), target, reduction=reduction, label_smoothing=0.1),
    )
    assert report["target"] == f"80 × {CLASSES} logits in float32"
    assert (report["numerics"], report["slows"]) == ("rounding", False)


LOSSES = {
    "shifted": lambda logits, target: F.cross_entropy(
        logits[..., :-1, :].contiguous().view(-1, CLASSES), target[..., 1:].reshape(-1)
    ),
    "in fp32": lambda logits, target: flat(logits.float(), target),
    "a module": lambda logits, target: nn.CrossEntropyLoss()(
        logits.flatten(0, 1), target.flatten()
    ),
    "classes second": lambda logits, target: F.cross_entropy(logits.transpose(1, 2), target),
    "permuted": lambda logits, target: F.cross_entropy(logits.permute(0, 2, 1), target),
    "one row": lambda logits, target: F.cross_entropy(logits[1], target[1]),
    "padded": lambda logits, target: F.cross_entropy(
        logits[..., : CLASSES - 7].reshape(-1, CLASSES - 7), target.flatten().clamp(max=1000)
    ),
    "with an offset": lambda logits, target: flat(logits + torch.linspace(0, 1, CLASSES), target),
    "divided": lambda logits, target: flat(logits.div(0.7), target, reduction="sum") / 31,
    "in two parts": lambda logits, target: (
        flat(logits[:2], target[:2]) + flat(logits[2:], target[2:])
    ),
    "detached in part": lambda logits, target: flat(logits, target) + flat(logits.detach(), target),
    "with another index": lambda logits, target: flat(logits, target.clamp(min=3), ignore_index=3),
    "all ignored": lambda logits, target: flat(logits, torch.full_like(target, -100)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_simple_operations_may_lie_between_head_and_loss(name):
    torch.manual_seed(0)
    tokens, target = batch(4, 70)
    compute = LOSSES[name]
    compare(Model(), lambda model: compute(model(tokens).sub(0.1), target))


REFUSED = {
    "weights": lambda logits, target: flat(logits, target, weight=torch.ones(CLASSES)),
    "each token": lambda logits, target: flat(logits, target, reduction="none").mean(),
    "probabilities": lambda logits, target: F.cross_entropy(
        logits.view(-1, CLASSES), torch.full((80, CLASSES), 1 / CLASSES)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_loss_is_computed_from_all_logits(name):
    tokens, target = batch(4, 20)
    compute = REFUSED[name]
    compare(
        Model(), lambda model: compute(model(tokens), target), refused="weights, no reduction, or"
    )


def of_accuracy(logits, target):
    loss = flat(logits, target)
    return loss * (logits.argmax(-1) == target).float().mean().add(1)


def changed_in_place(logits, target):
    part = logits[:, 2:]
    copied = logits * 1.0
    logits[..., 3] = -2.0
    logits.mul_(0.5)
    return flat(logits, target) + part.square().mean() + copied.square().mean()


def split_up(logits, target):
    first, second = logits.split(2)
    return flat(second, target[2:]) + first.exp().mean()


def with_its_maximum(logits, target):
    return flat(logits, target) + 1e-3 * logits.logsumexp(-1).square().mean()


def log_probabilities(logits, target):
    logs = logits.log_softmax(-1).gather(-1, target.clamp(min=0)[..., None])
    return -logs.mean()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits):
        return logits.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


OTHERS = (
    of_accuracy,
    changed_in_place,
    split_up,
    with_its_maximum,
    log_probabilities,
    lambda logits, target: flat(Doubled.apply(logits), target),
)


@pytest.mark.parametrize("compute", OTHERS)
def test_any_other_use_computes_the_logits_with_the_same_results(compute):
    torch.manual_seed(0)
    tokens, target = batch(4, 20)
    compare(
        Model(scale=2.0),
        lambda model: compute(model(tokens), target),
        refused="all logits in test_chunked_head.py"
        if compute.__name__ != "<lambda>"
        else "weights",
    )


def test_logits_are_numbers_to_what_asks_for_memory():
    tokens, _ = batch(4, 20)
    model = Model().eval()
    expected = model(tokens).detach()
    with changes.apply_changes(["chunked-loss=head"]):
        model.train()
        model(tokens[:1, :1]).sum().backward()
        logits = model.eval()(tokens)
        assert type(logits).__name__ == "Logits"
        assert (logits.shape, logits.dtype, logits.device) == (
            expected.shape,
            expected.dtype,
            expected.device,
        )
        assert torch.equal(torch.from_numpy(logits.detach().numpy()), expected)
        assert logits[0, 0, :3].tolist() == expected[0, 0, :3].tolist()
        assert repr(expected[0, 0, :2])[:20] in repr(logits[0, 0, :2])
        assert torch.equal(copy.deepcopy(logits.detach()), expected)


def test_gradients_of_the_logits_are_there_where_the_program_wants_them():
    tokens, target = batch(4, 20)

    def of_grad(model):
        logits = model(tokens)
        loss = flat(logits, target)
        (gradient,) = torch.autograd.grad(loss, logits, retain_graph=True)
        return loss + gradient.square().sum().detach()

    def retained(model):
        logits = model(tokens)
        logits.retain_grad()
        flat(logits, target).backward(retain_graph=True)
        return logits.square().mean() + logits.grad.abs().sum().detach()

    def hooked(model):
        logits = model(tokens)
        logits.register_hook(lambda gradient: 2 * gradient)
        return flat(logits, target)

    def appended(model):
        logits, gradients = model(tokens), []
        logits.register_hook(gradients.append)
        loss = flat(logits, target)
        loss.backward(retain_graph=True)
        return loss + gradients[0].abs().sum()

    compare(Model(), of_grad)
    compare(Model(), hooked)
    compare(Model(), appended)
    compare(Model(), retained, refused="all logits")


def test_a_graph_may_be_used_twice_and_derived_twice():
    tokens, target = batch(4, 20)

    def twice(loss):
        loss.backward(retain_graph=True)
        (2 * loss).backward()

    def derived(model):
        loss = flat(model(tokens), target)
        (gradient,) = torch.autograd.grad(loss, model.body.weight, create_graph=True)
        return loss + 100 * gradient.square().sum()

    compare(Model(bias=True), lambda model: flat(model(tokens), target), backward=twice)
    compare(Model(bias=True), derived)


@pytest.mark.parametrize("frozen", ["head", "body", "all but the bias"])
def test_frozen_parameters_get_no_gradient(frozen):
    tokens, target = batch(4, 20)
    model = Model(bias=True)
    for name, one in model.named_parameters():
        one.requires_grad_(
            {
                "head": not name.startswith("head"),
                "body": name.startswith("head"),
                "all but the bias": name == "head.bias",
            }[frozen]
        )
    compare(model, lambda model: flat(model(tokens), target))


def test_gradients_are_accumulated():
    tokens, target = batch(4, 20)

    def accumulated(model):
        for _ in range(2):
            (flat(model(tokens), target) / 3).backward()
        return flat(model(tokens), target) / 3

    compare(Model(tied=True), accumulated)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_only_rounded_otherwise(dtype):
    tokens, target = batch(4, 20)

    def under_autocast(model):
        with torch.autocast("cpu", dtype=dtype):
            return flat(model(tokens), target)

    compare(Model(bias=True, cap=2.0), under_autocast, rounding=0.01)


def test_a_model_in_bf16_has_a_loss_in_bf16():
    torch.manual_seed(0)
    tokens, target = batch(8, 80)
    model = Model(width=32).bfloat16()
    compare(model, lambda model: flat(model(tokens), target), rounding=0.02)


def test_many_chunks_are_summed_up_in_fp32(monkeypatch):
    from floodmark.changes import chunked_loss, deferred_head

    few = deferred_head.HEAD.replace("CHUNK = 1 << 25", "CHUNK = 1 << 16")
    monkeypatch.setattr(chunked_loss, "HEAD", few)
    torch.manual_seed(0)
    tokens, target = batch(8, 80)
    model = Model(width=32).bfloat16()
    compare(model, lambda model: flat(model(tokens), target), rounding=0.01)


def test_a_checkpointed_model_is_the_same():
    from torch.utils.checkpoint import checkpoint

    tokens, target = batch(4, 20)
    compare(
        Model(),
        lambda model: checkpoint(
            lambda tokens: flat(model(tokens), target), tokens, use_reentrant=False
        ),
    )


def test_hooks_for_saved_tensors_see_no_logits():
    tokens, target = batch(4, 20)
    addresses = []

    def pack(tensor):
        addresses.append(tensor.untyped_storage().data_ptr())
        return tensor.clone()

    def hooked(compute):
        def loss_of(model):
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                return compute(model(tokens))

        return loss_of

    compare(Model(cap=1.0), hooked(lambda logits: flat(logits.clamp(-5, 5), target)))
    squares = hooked(lambda logits: flat(logits, target) + logits.square().mean())
    compare(Model(cap=1.0), squares, refused="all logits")
    assert addresses


@pytest.mark.parametrize("is_inference", [False, True])
def test_evaluation_without_gradients_has_the_same_loss(is_inference):
    tokens, target = batch(4, 20)
    model = Model()

    def evaluated():
        model.eval()
        with torch.inference_mode() if is_inference else torch.no_grad():
            loss = flat(model(tokens), target)
        model.train()
        return loss

    expected = evaluated()
    with changes.apply_changes(["chunked-loss=head"]) as applied:
        flat(model(tokens), target).backward()
        loss = evaluated()
    torch.testing.assert_close(loss, expected)
    assert applied.reports()[0]["target"]


def test_logits_of_an_evaluation_do_not_end_the_change():
    tokens, target = batch(4, 20)
    model = Model()
    with changes.apply_changes(["chunked-loss=head"]) as applied:
        flat(model(tokens), target).backward()
        with torch.no_grad():
            assert model.eval()(tokens).argmax(-1).shape == tokens.shape
            assert type(model(tokens)) is torch.Tensor
        logits = model.train()(tokens)
        assert type(logits).__name__ == "Logits"
    assert applied.reports()[0]["target"]


def test_stale_logits_are_an_error_and_never_other_numbers():
    tokens, target = batch(4, 20)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with changes.apply_changes(["chunked-loss=head"]):
        logits = model(tokens)
        flat(logits, target).backward()
        optimizer.step()
        with pytest.raises(RuntimeError, match="the weights of the head have changed"):
            logits.argmax(-1)


def test_a_copy_of_the_model_has_its_own_head():
    tokens, target = batch(4, 20)
    model = Model()
    with changes.apply_changes(["chunked-loss=head"]):
        flat(model(tokens), target).backward()
        other = copy.deepcopy(model)
        with torch.no_grad():
            other.head.weight.zero_()
        loss = flat(other(tokens), target)
    torch.testing.assert_close(loss, torch.tensor(float(CLASSES)).log())


def test_a_model_that_is_saved_may_wait_again_after_it_was_loaded(tmp_path):
    tokens, target = batch(4, 20)
    model = Model()
    with changes.apply_changes(["chunked-loss=head"]):
        expected = flat(model(tokens), target)
        torch.save(model, tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    with changes.apply_changes(["chunked-loss=head"]) as applied:
        torch.testing.assert_close(flat(loaded(tokens), target), expected)
    assert applied.reports()[0]["target"]


def test_nothing_is_kept_alive():
    tokens, target = batch(4, 20)
    model = Model(cap=1.0)
    hidden: list[weakref.ref[torch.Tensor]] = []
    model.body.register_forward_hook(lambda _m, _a, output: hidden.append(weakref.ref(output)))
    gc.disable()
    try:
        with changes.apply_changes(["chunked-loss=head"]):
            for _ in range(2):
                loss = flat(model(tokens), target)
                loss.backward()
                del loss
            assert [reference() for reference in hidden] == [None, None]
    finally:
        gc.enable()


def test_functions_of_torch_func_get_all_logits():
    tokens, target = batch(4, 20)
    model = Model()

    def transformed(model):
        def loss_of(parameters):
            return flat(torch.func.functional_call(model, parameters, tokens), target)

        gradients = torch.func.grad(loss_of)(dict(model.named_parameters()))
        return flat(model(tokens), target) + gradients["body.weight"].square().sum()

    compare(model, transformed)


def test_a_parametrized_head_is_left_alone():
    tokens, target = batch(4, 20)
    model = Model()
    torch.nn.utils.parametrizations.spectral_norm(model.head)
    with changes.apply_changes(["chunked-loss=head"]) as applied:
        assert type(model(tokens)) is torch.Tensor
        flat(model(tokens), target).backward()
    (report,) = applied.reports()
    assert report["reason"] == "no `Linear` of `Model` may compute its logits later"


def test_a_compiled_model_says_why_its_logits_do_not_wait():
    tokens, target = batch(4, 20)
    model = torch.compile(Model(), backend="eager")
    with changes.apply_changes(["chunked-loss=head"]) as applied:
        flat(model(tokens), target).backward()
    assert "compiled" in applied.reports()[0]["reason"]


def test_a_small_head_is_left_alone():
    with changes.apply_changes(["chunked-loss=head"]) as applied:
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 10))
        F.cross_entropy(model(torch.randn(4, 8)), torch.zeros(4, dtype=torch.long)).backward()
    assert applied.reports()[0]["reason"].startswith("no `cross_entropy` of a million")


@pytest.mark.parametrize("library", ["liger", "cce"])
def test_a_library_that_is_not_installed_is_not_used(library, monkeypatch):
    tokens, target = batch(4, 20)
    monkeypatch.setattr("floodmark.changes.chunked_loss.is_installed", lambda _: False)
    with changes.apply_changes([f"chunked-loss={library}"]) as applied:
        flat(Model()(tokens), target).backward()
    assert applied.reports()[0]["reason"].endswith("is not installed")


CONFIGS = {
    "Llama": {},
    "Qwen3": {"head_dim": 8},
    "Gemma2": {"head_dim": 8, "final_logit_softcapping": 0.5},
    "GPT2": {"n_embd": 16, "n_head": 2, "n_layer": 2, "n_positions": 64},
}


def causal(kind, *, tied):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    shape = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
    }
    options = CONFIGS[kind] if kind == "GPT2" else shape | CONFIGS[kind]
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=CLASSES, tie_word_embeddings=tied, **options
    )
    name = "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM"
    return getattr(transformers, name)(config)


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("items", [None, torch.tensor(57)])
def test_causal_models_of_transformers(kind, tied, autocast, items):
    tokens, target = batch(4, 20)

    def loss_of(model):
        with torch.autocast("cpu", dtype=torch.bfloat16) if autocast else nullcontext():
            options = {} if items is None else {"num_items_in_batch": items}
            return model(input_ids=tokens, labels=target, use_cache=False, **options).loss

    model = causal(kind, tied=tied).eval().train()
    for one in model.modules():
        if isinstance(one, nn.Dropout):
            one.p = 0.0
    report = compare(model, loss_of, rounding=0.02 if autocast else 1e-5)
    assert report["target"].startswith(f"80 × {CLASSES} logits")


def test_the_patch_for_a_model_of_transformers_names_its_head():
    tokens, target = batch(4, 20)
    network = causal("Llama", tied=False)
    with changes.apply_changes(["chunked-loss=head"]) as applied:
        network(input_ids=tokens, labels=target).loss.backward()
    expected = trained(network, lambda model: model(input_ids=tokens, labels=target).loss)
    patch = applied.reports()[0]["patch"]
    assert "for head in [network.lm_head]:" in patch
    exec(patch, {"torch": torch, "network": network})
    logits = network(input_ids=tokens).logits
    assert type(logits).__name__ == "Logits"
    pasted = trained(network, lambda model: model(input_ids=tokens, labels=target).loss)
    for name, gradient in expected[1].items():
        assert (pasted[1][name] - gradient).norm() <= 1e-5 * gradient.norm(), name


@pytest.fixture
def one_rank(tmp_path):
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("unused", [False, True])
def test_a_model_in_ddp(one_rank, unused):
    tokens, target = batch(4, 20)
    model = nn.parallel.DistributedDataParallel(Model(tied=True), find_unused_parameters=unused)
    compare(model, lambda model: flat(model(tokens), target))


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("alone", ["", "kept", "freed"])
def test_a_model_in_fsdp(one_rank, is_inside, alone):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    tokens, target = batch(4, 20)
    mesh = init_device_mesh("cpu", (1,))
    model = Model(bias=True)
    if is_inside:
        forward = model.forward
        model.forward = lambda tokens, target: flat(forward(tokens), target)
    if alone:
        fully_shard(model.head, mesh=mesh, reshard_after_forward=alone == "freed")
    fully_shard(model, mesh=mesh)

    def loss_of(model):
        return model(tokens, target) if is_inside else flat(model(tokens), target)

    def backward(loss):
        loss.backward()

    whole = trained(model, loss_of)
    with changes.apply_changes(["chunked-loss=head"]) as applied:
        for _ in range(2):
            chunked = trained(model, loss_of, backward=backward)
    assert applied.reports()[0]["target"], applied.reports()[0]["reason"]
    torch.testing.assert_close(chunked[0], whole[0])
    for name, gradient in whole[1].items():
        torch.testing.assert_close(chunked[1][name].full_tensor(), gradient.full_tensor())
