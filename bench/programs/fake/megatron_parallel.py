"""megatron-core: a GPT with any parallelism, and what else a large run has.

megatron_parallel.py [tp=2] [pp=2] [vpp=] [distopt=0] [recompute=0] [moe=] [ep=1] [layers=16]
"""

import os
import sys
from functools import partial

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.transformer_config import TransformerConfig

SEQUENCE, MICRO_BATCH, MICRO_BATCHES, VOCABULARY = 1024, 1, 8, 51200


def option(name, default):
    given = dict(word.split("=") for word in sys.argv[1:] if "=" in word)
    return type(default)(given.get(name, default))


def mixture():
    kind = option("moe", "")
    if not kind:
        return {}
    experts = {
        "num_moe_experts": 8,
        "moe_router_topk": 2,
        "moe_token_dispatcher_type": "alltoall",
        "moe_grouped_gemm": False,
        "add_bias_linear": False,
    }
    if kind == "capacity":
        experts |= {"moe_expert_capacity_factor": 1.0, "moe_pad_expert_input_to_capacity": True}
    return experts


def configure():
    recompute = {"recompute_granularity": "full", "recompute_method": "uniform"}
    return TransformerConfig(
        num_layers=option("layers", 16),
        hidden_size=1024,
        num_attention_heads=16,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        tensor_model_parallel_size=option("tp", 2),
        pipeline_model_parallel_size=option("pp", 2),
        virtual_pipeline_model_parallel_size=option("vpp", 0) or None,
        expert_model_parallel_size=option("ep", 1),
        finalize_model_grads_func=finalize_model_grads,
        **(recompute | {"recompute_num_layers": 1} if option("recompute", 0) else {}),
        **mixture(),
    )


def build(config):
    parts = option("vpp", 0) or 1
    experts = 8 if option("moe", "") else None
    models = []
    for part in range(parts):
        where = {"ignore_virtual": False, "vp_stage": part} if parts > 1 else {}
        model = GPTModel(
            config,
            get_gpt_layer_local_spec(num_experts=experts),
            VOCABULARY,
            SEQUENCE,
            pre_process=parallel_state.is_pipeline_first_stage(**where),
            post_process=parallel_state.is_pipeline_last_stage(**where),
            share_embeddings_and_output_weights=False,
            **({"vp_stage": part} if parts > 1 else {}),
        )
        model = Float16Module(config, model.cuda())
        ddp = DistributedDataParallelConfig(
            use_distributed_optimizer=bool(option("distopt", 0)),
            overlap_grad_reduce=bool(option("distopt", 0)),
        )
        models.append(DistributedDataParallel(config, ddp, model))
    return models


def batches():
    while True:
        ids = torch.randint(0, VOCABULARY, (MICRO_BATCH, SEQUENCE), device="cuda")
        yield ids, torch.arange(SEQUENCE, device="cuda").expand_as(ids)


def forward_step(data, model):
    ids, positions = next(data)
    output = model(ids, positions, None, labels=ids)
    return output, partial(loss_of, ids.numel())


def loss_of(count, output):
    loss = output.float().sum() / count
    return loss, {"loss": loss.detach()}


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    parallel_state.initialize_model_parallel(
        option("tp", 2),
        option("pp", 2),
        virtual_pipeline_model_parallel_size=option("vpp", 0) or None,
        expert_model_parallel_size=option("ep", 1),
    )
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    config = configure()
    models = build(config)
    optimizer = get_megatron_optimizer(
        OptimizerConfig(
            optimizer="adam",
            lr=1e-4,
            bf16=True,
            params_dtype=torch.bfloat16,
            use_distributed_optimizer=bool(option("distopt", 0)),
            clip_grad=1.0,
        ),
        models,
    )
    run = get_forward_backward_func()
    for _ in range(2):
        for model in models:
            model.zero_grad_buffer()
        optimizer.zero_grad()
        run(
            forward_step_func=forward_step,
            data_iterator=[batches() for _ in models] if len(models) > 1 else batches(),
            model=models,
            num_microbatches=MICRO_BATCHES,
            seq_length=SEQUENCE,
            micro_batch_size=MICRO_BATCH,
            forward_only=False,
        )
        optimizer.step()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
