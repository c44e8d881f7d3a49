#!/usr/bin/env python3
"""Small trainings with one fault each, which `--fixed` takes away; prints how long a step takes.

    python3 faults.py checkpoint            # {"fault": "checkpoint", "fixed": false, "ms_per_step": 172.4}
    python3 faults.py checkpoint --fixed    # {"fault": "checkpoint", "fixed": true, "ms_per_step": 3.8}

The difference is what ending the fault gains. `record.sh` records each under `lacuna capture`. Needs PyTorch and a GPU.
"""

import argparse
import gc
import io
import json
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda:0"
MIB = 1 << 20


class Clock:
    """The mean time of the steps after the first few; the device is waited for before them and after them only."""

    FIRST = 8

    def __init__(self):
        self.steps = 0

    def step(self):
        self.steps += 1
        if self.steps == self.FIRST:
            self.start = self.now()

    def ms_per_step(self):
        return 1e3 * (self.now() - self.start) / (self.steps - self.FIRST)

    @staticmethod
    def now():
        torch.cuda.synchronize()
        return time.perf_counter()


def layers(width, depth):
    return nn.Sequential(*(layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.GELU()))).to(DEVICE)


def update(model, optimizer, batch):
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(batch).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def none(args, clock):
    """Large matrices, a fused optimizer: nothing waits, with --fixed as without."""
    model = layers(4096, 6)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    batch = torch.randn(16384, 4096, device=DEVICE)
    for _ in range(args.steps):
        update(model, optimizer, batch)
        clock.step()


def garbage(args, clock):
    """Garbage is collected in each step, with some hundred thousand objects alive."""
    objects = [{"index": [index]} for index in range(200_000)]
    model = layers(2048, 6)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    batch = torch.randn(16384, 2048, device=DEVICE)
    for _ in range(args.steps):
        update(model, optimizer, batch)
        if not args.fixed:
            gc.collect()
        clock.step()
    return len(objects)


def empty_cache(args, clock):
    """The allocator's cache is emptied in each step."""
    model = layers(4096, 4)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for _ in range(args.steps):
        update(model, optimizer, torch.randn(8192, 4096, device=DEVICE))
        if not args.fixed:
            torch.cuda.empty_cache()
        clock.step()


def save(model, optimizer):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, io.BytesIO())


def checkpoint(args, clock):
    """Every third step saves model and optimizer, and waits for it."""
    model = layers(2048, 8)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    batch = torch.randn(16384, 2048, device=DEVICE)
    for step in range(args.steps):
        update(model, optimizer, batch)
        if not args.fixed and step % 3 == 2:
            save(model, optimizer)
        clock.step()


class Documents(Dataset):
    """Texts of which a batch is made in plain Python."""

    WORDS = [f"word{index * 7919 % 8000}" for index in range(8000)]

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return " ".join(self.WORDS[(index * 31 + word) % len(self.WORDS)] for word in range(96))


def tokenize_batch(texts):
    return torch.tensor([[sum(word.encode()) % 8192 for word in text.split()] for text in texts])


def collate(args, clock):
    """The main process tokenizes each batch; fixed: four workers do."""
    model = nn.Sequential(nn.Embedding(8192, 1024), *layers(1024, 12)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    workers = {"num_workers": 4, "persistent_workers": True} if args.fixed else {}
    loader = DataLoader(Documents(128 * args.steps), 128, collate_fn=tokenize_batch, pin_memory=True, **workers)
    for batch in loader:
        update(model, optimizer, batch.to(DEVICE, non_blocking=True))
        clock.step()


def optimizer_loop(args, clock):
    """Adam goes over 200 parameters one by one; fixed: one fused kernel does."""
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(100))).to(DEVICE)
    kind = {"fused": True} if args.fixed else {"foreach": False}
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, **kind)
    batch = torch.randn(65536, 256, device=DEVICE)
    for _ in range(args.steps):
        update(model, optimizer, batch)
        clock.step()


def leak(args, clock):
    """A list keeps each loss, and with it all that its gradient needs: 256 MiB a step."""
    model = layers(1024, 4)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    batch = torch.randn(8192, 1024, device=DEVICE)
    losses = []
    for _ in range(args.steps):
        update(model, optimizer, batch)
        loss = model(batch).square().mean()
        losses.append(loss.detach() if args.fixed else loss)
        clock.step()


def limit(args, clock):
    """Batches grow until a limit of the process is reached, a tenth of the device; fixed: they do not grow."""
    torch.cuda.set_per_process_memory_fraction(0.1)
    model = layers(4096, 3)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    for step in range(args.steps):
        rows = 8192 if args.fixed else 8192 * (step + 1)
        update(model, optimizer, torch.randn(rows, 4096, device=DEVICE))
        clock.step()


def load_batch(rank, is_fixed):
    if rank == 1 and not is_fixed:
        time.sleep(0.03)
    return torch.randn(2048, 1024)


def late_rank(args, clock):
    """Two ranks share the device and exchange gradients by Gloo; the second takes 30 ms longer to load. For torchrun."""
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = nn.parallel.DistributedDataParallel(layers(1024, 3))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for _ in range(args.steps):
        update(model, optimizer, load_batch(rank, args.fixed).to(DEVICE))
        clock.step()
    torch.distributed.destroy_process_group()


FAULTS = [none, garbage, empty_cache, checkpoint, collate, optimizer_loop, leak, limit, late_rank]


def main():
    faults = {fault.__name__: fault for fault in FAULTS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fault", choices=faults)
    parser.add_argument("--fixed", action="store_true", help="without the fault")
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    clock = Clock()
    faults[args.fault](args, clock)
    measured = {"fault": args.fault, "fixed": args.fixed, "ms_per_step": round(clock.ms_per_step(), 3)}
    print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    main()
