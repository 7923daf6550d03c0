"""A real transformers Trainer with real DeepSpeed and zplan's callback, on a stand-in for CUDA's runtime that launches no kernel.

usage: train.py ROWS ZERO_STAGE   (in the surroundings that trainer_test.py makes)

What is computed there is garbage, so nothing may be decided by it: transformers would look for packed sequences, DeepSpeed compare
lists between ranks.
"""
import os
import sys
import warnings

warnings.filterwarnings("ignore")
rows, stage = sys.argv[1], int(sys.argv[2])
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", ACCELERATE_USE_DEEPSPEED="true")

import deepspeed
import deepspeed.runtime.zero.stage3
import torch
import torch.distributed
import transformers
import transformers.masking_utils
from torch.testing._internal.distributed.fake_pg import FakeStore

from zplan.integrations import TrainerCallback

transformers.logging.set_verbosity_error()
transformers.masking_utils.find_packed_sequence_indices = lambda *_, **__: None
for module in (deepspeed.runtime.zero.stage3, deepspeed.runtime.zero.partition_parameters,
               deepspeed.runtime.zero.partitioned_param_coordinator):
    module.assert_ints_same_as_other_ranks = lambda *_: None
torch.distributed.init_process_group(backend="fake", rank=0, world_size=1, store=FakeStore())
deepspeed.init_distributed(dist_backend="fake", verbose=False)

TOKENS, SAMPLES = 512, 16
config = transformers.Qwen2Config(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
                                  num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True, use_cache=False)
arguments = transformers.TrainingArguments(
    output_dir=os.path.join(os.path.dirname(rows), "output"), per_device_train_batch_size=2, gradient_accumulation_steps=1,
    max_steps=6, bf16=True, gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False},
    report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, dataloader_pin_memory=False,
    deepspeed={"zero_optimization": {"stage": stage}, "bf16": {"enabled": "auto"}, "gradient_clipping": "auto",
               "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
               "zero_allow_untested_optimizer": True})
model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
samples = [{"input_ids": torch.zeros(TOKENS, dtype=torch.long), "labels": torch.zeros(TOKENS, dtype=torch.long)}
           for _ in range(SAMPLES)]
callback = TrainerCallback(steps=5, row=rows)
trainer = transformers.Trainer(model=model, args=arguments, train_dataset=samples, callbacks=[callback])
trainer.train()
for each in callback.watch.compared:
    print(f"{each.name}: {each.predicted:.0f} {each.measured:.0f}")
