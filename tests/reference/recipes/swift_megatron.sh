# 4 * 80 GiB
PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' \
NPROC_PER_NODE=4 \
CUDA_VISIBLE_DEVICES=0,1,2,3 \
megatron sft \
    --model Qwen/Qwen2.5-7B \
    --dataset data/train.jsonl \
    --save_safetensors true \
    --tensor_model_parallel_size 2 \
    --sequence_parallel true \
    --micro_batch_size 1 \
    --global_batch_size 16 \
    --packing true \
    --recompute_granularity full \
    --recompute_method uniform \
    --recompute_num_layers 1 \
    --cross_entropy_loss_fusion true \
    --overlap_grad_reduce true \
    --max_length 4096 \
    --lr 1e-5 \
    --lr_warmup_fraction 0.05 \
    --num_train_epochs 1 \
    --no_save_optim true \
    --output_dir out
