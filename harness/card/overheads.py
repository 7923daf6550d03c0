"""What the device holds besides PyTorch's allocator: context, kernels, cuBLAS, communicators. Each is what the device
lost between two stages, less what the allocator took."""
import torch
import torch.distributed

import ranks
import training


def stages_of_one(place, _):
    seen = Stages(place)
    for dtype in (torch.bfloat16, torch.float32):
        a = torch.ones(4096, 4096, dtype=dtype, device="cuda", requires_grad=True)
        (a @ a).sum().backward()  # the forward's thread and autograd's each have a workspace
        seen.add(f"matrix products in {str(dtype).removeprefix('torch.')}")
    x = torch.ones(1, 8, 512, 64, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).sum().backward()
    seen.add("attention")
    weights = torch.nn.Linear(512, 512, device="cuda")
    torch.nn.functional.cross_entropy(weights(torch.ones(8, 512, device="cuda")), torch.zeros(8, dtype=torch.long, device="cuda")).backward()
    optimizer = torch.optim.AdamW(weights.parameters(), fused=True)
    optimizer.step()
    seen.add("loss and fused AdamW")
    return {"stages": seen.rows}


def stages_of_a_group(place, _):
    seen = Stages(place)
    training.join("torch", place)
    data = torch.ones(1 << 20, device="cuda")
    torch.distributed.all_reduce(data)
    seen.add("communicator and all_reduce")
    out = torch.empty(place.ranks << 20, device="cuda")
    torch.distributed.all_gather_into_tensor(out, data)
    torch.distributed.reduce_scatter_tensor(data, out)
    seen.add("all_gather and reduce_scatter")
    second = torch.distributed.new_group(list(range(place.ranks)))
    torch.distributed.all_reduce(data, group=second)
    seen.add("second communicator")
    return {"stages": seen.rows}


class Stages:
    def __init__(self, place):
        self.place, self.rows = place, []
        self.device = self.reserved = 0
        torch.cuda.set_device(0)
        torch.zeros(1, device="cuda")
        self.add("context and first kernel")

    def add(self, name):
        torch.cuda.synchronize()
        device, reserved = self.place.device_bytes(), torch.cuda.memory_reserved()
        self.rows.append({"stage": name, "device_bytes": device, "reserved": reserved,
                          "outside_allocator": device - reserved,
                          "added_outside": device - self.device - (reserved - self.reserved)})
        self.device, self.reserved = device, reserved


def measure(watcher, log, *, fake=False):
    """Rows of one process, and of 2, 4 and 8 ranks."""
    found = []
    for count, stages in ((1, stages_of_one), (2, stages_of_a_group), (4, stages_of_a_group), (8, stages_of_a_group)):
        answers, _ = ranks.run_ranks(stages, count, watcher, log, fake=fake, limit=90)
        found.append({"ranks": count, **answers[0]})
    return found
