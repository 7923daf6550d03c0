#!/bin/sh
# Four GPUs of one machine.
NPROC_PER_NODE=4 CUDA_VISIBLE_DEVICES=0,1,2,3 \
swift sft \
    --model Qwen/Qwen3-8B \
    --tuner_type full \
    --dataset 'AI-ModelScope/alpaca-gpt4-data-en#5000' \
    --torch_dtype bfloat16 \
    --max_length 4096 \
    --per_device_train_batch_size 4 \
    --gradient_accumulation_steps 4 \
    --attn_impl flash_attn \
    --deepspeed zero3 \
    --learning_rate 1e-5 \
    --output_dir output
