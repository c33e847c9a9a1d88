"""megatron-core: a GPT with tensor parallelism 2 and pipeline parallelism 2, in bfloat16."""

import os
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

SEQUENCE, MICRO_BATCH, MICRO_BATCHES, VOCABULARY = 1024, 1, 8, 50304


def build():
    config = TransformerConfig(
        num_layers=16,
        hidden_size=1024,
        num_attention_heads=16,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        tensor_model_parallel_size=2,
        pipeline_model_parallel_size=2,
        finalize_model_grads_func=finalize_model_grads,
    )
    model = GPTModel(
        config,
        get_gpt_layer_local_spec(),
        VOCABULARY,
        SEQUENCE,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=False,
    )
    model = Float16Module(config, model.cuda())
    ddp = DistributedDataParallelConfig(use_distributed_optimizer=False)
    return config, DistributedDataParallel(config, ddp, model)


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
    parallel_state.initialize_model_parallel(2, 2)
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    _config, model = build()
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=1e-4, bf16=True, params_dtype=torch.bfloat16), [model]
    )
    run = get_forward_backward_func()
    for _ in range(3):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        run(
            forward_step_func=forward_step,
            data_iterator=batches(),
            model=[model],
            num_microbatches=MICRO_BATCHES,
            seq_length=SEQUENCE,
            micro_batch_size=MICRO_BATCH,
            forward_only=False,
        )
        optimizer.step()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
