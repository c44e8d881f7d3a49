#!/usr/bin/env python3
"""Trains a small transformer with one planted fault, and records the run.

    python3 train.py --plant slow-loader --out DIR

writes DIR/slow_loader.kineto.json.gz (PyTorch profiler: shapes, stacks, memory), DIR/slow_loader.snapshot.pickle.gz
(memory history of the same run, from before the model was made) and DIR/slow_loader.answer.json (what was planted, and
what the program measured by itself). Paths of the machine are removed from both recordings, and neither holds an
environment. Needs PyTorch 2.4 or later and a GPU.
"""

import argparse
import gzip
import json
import os
import pickle
import statistics
import sys
import tempfile
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, Dataset

PLANTS = [
    "none", "slow-loader", "item", "pageable-copy", "tiny-kernels", "leak", "fragmentation", "oom", "cuda-graph", "compile",
]
# Steps: WARMUP are not recorded by the profiler, then one that it throws away, then RECORDED.
WARMUP, RECORDED = 5, 6
SLOW_STEPS, SLOW_SECONDS = (7, 9), 0.4
OOM_STEP = 8
MIB = 1 << 20


class Tokens(Dataset):
    """Random sequences; some take long to load if that is the planted fault."""

    def __init__(self, args, count):
        self.args, self.count = args, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        step, row = divmod(index, self.args.batch)
        if self.args.plant == "slow-loader" and step in SLOW_STEPS and row == 0:
            decode_slowly(SLOW_SECONDS)
        generator = torch.Generator().manual_seed(index)
        return torch.randint(self.args.vocabulary, (self.args.length + 1,), generator=generator)


def decode_slowly(seconds):
    time.sleep(seconds)


class Block(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.heads, self.tiny = args.heads, args.plant == "tiny-kernels"
        self.norm_attention, self.norm_mlp = nn.LayerNorm(args.width), nn.LayerNorm(args.width)
        self.qkv, self.out = nn.Linear(args.width, 3 * args.width), nn.Linear(args.width, args.width)
        self.mlp = nn.Sequential(
            nn.Linear(args.width, 4 * args.width), nn.GELU(), nn.Linear(4 * args.width, args.width)
        )
        self.scale = nn.Parameter(torch.ones(args.width))

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        x = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(x.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm_attention(x))
        if self.tiny:
            x = x * clamp_slowly(self.scale)
        return x + self.mlp(self.norm_mlp(x))


def clamp_slowly(scale):
    """A hundred kernels on 4 KiB."""
    for _ in range(50):
        scale = scale * 1.001
        scale = scale - 0.001
    return scale


class Model(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embedding = nn.Embedding(args.vocabulary, args.width)
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.layers))
        self.head = nn.Linear(args.width, args.vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Trainer:
    def __init__(self, args):
        self.args, self.device = args, torch.device("cuda")
        self.model = Model(args).to(self.device)
        if args.plant == "compile":
            self.model.compile()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, capturable=args.plant == "cuda-graph")
        self.kept, self.measured = [], []
        self.facts = {}
        self.graph = None

    def copy_to_device(self, batch):
        if self.args.plant == "pageable-copy":
            # An image-like input that nobody pinned: 64 MiB a step.
            extra = torch.ones(self.args.batch, 16 * MIB // self.args.batch)
            self.extra = extra.to(self.device)
        return batch.to(self.device, non_blocking=True)

    def loss(self, tokens):
        # A cast that a graph captured cannot be kept for the next one.
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=self.args.plant != "cuda-graph"):
            logits = self.model(tokens[:, :-1])
            return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def update(self, tokens):
        with record_function("forward"):
            loss = self.loss(tokens)
        with record_function("backward"):
            loss.backward()
        if self.args.plant == "item":
            self.log_norms()
        with record_function("optimizer"):
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        return loss

    def log_norms(self):
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                self.measured.append(parameter.grad.norm().item())

    def step(self, number, batch):
        tokens = self.copy_to_device(batch)
        if self.args.plant == "fragmentation":
            # Sequences grow, so that the blocks of one step do not fit the next, and a small tensor of each step stays.
            tokens = tokens[:, : self.args.length * (number + 4) // 16 + 1]
            self.keep_statistics(tokens)
        if self.args.plant == "oom" and number == OOM_STEP:
            self.try_a_large_batch()
        if self.args.plant == "cuda-graph":
            return self.replay(tokens)
        loss = self.update(tokens)
        if self.args.plant == "leak":
            self.remember(tokens, loss)
        return loss

    def remember(self, tokens, loss):
        """The planted leak: 24 MiB a step."""
        self.kept.append(torch.zeros(24 * MIB // 4, device=self.device))
        self.kept.append(loss.detach())

    def keep_statistics(self, tokens):
        self.kept.append(torch.zeros(3 * MIB // 4, device=self.device))

    def try_a_large_batch(self):
        _, request = torch.cuda.mem_get_info()
        try:
            torch.empty(request, dtype=torch.uint8, device=self.device)
        except torch.cuda.OutOfMemoryError as error:
            self.facts["out_of_memory"] = {"requested_bytes": request, "message": str(error).split(" If reserved")[0]}

    def replay(self, tokens):
        if self.graph is None:
            self.static = tokens.clone()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.update(self.static)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.graph_loss = self.update(self.static)
        self.static.copy_(tokens)
        self.graph.replay()
        return self.graph_loss


def without_paths(text):
    """Without the paths of this machine: site-packages, the standard library and the script keep their names."""
    here = os.path.dirname(os.path.abspath(__file__))
    for path in sorted({p for p in sys.path if p.startswith("/") and p != here}, key=len, reverse=True):
        name = "site-packages" if path.endswith("-packages") else "lib/python3"
        text = text.replace(path.rstrip("/") + "/", name + "/")
    for path in (here, os.getcwd(), tempfile.gettempdir()):
        text = text.replace(path.rstrip("/") + "/", "")
    return text


def clean_snapshot(snapshot):
    for stack in stacks(snapshot):
        for frame in stack:
            frame["filename"] = without_paths(frame["filename"])
    return snapshot


def stacks(snapshot):
    seen = set()
    for holder in [*snapshot["segments"], *(e for trace in snapshot["device_traces"] for e in trace)]:
        for owner in [holder, *holder.get("blocks", [])]:
            for frames in [owner.get("frames"), *(h.get("frames") for h in owner.get("history", []))]:
                if frames and id(frames) not in seen:
                    seen.add(id(frames))
                    yield frames


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plant", choices=PLANTS, required=True)
    parser.add_argument("--out", required=True)
    for name, default in [
        ("batch", 32), ("length", 512), ("width", 2048), ("layers", 3), ("heads", 16), ("vocabulary", 8192),
    ]:
        parser.add_argument("--" + name, type=int, default=default)
    args = parser.parse_args()
    if args.plant == "tiny-kernels":
        # Small enough for the host to be what limits it.
        args.width //= 4
    name = args.plant.replace("-", "_")
    base = os.path.join(args.out, name)
    os.makedirs(args.out, exist_ok=True)
    torch.manual_seed(1)

    memory = args.plant not in ("cuda-graph", "compile")
    if memory:
        torch.cuda.memory._record_memory_history(max_entries=200_000, stacks="python")
    trainer = Trainer(args)
    steps = WARMUP + 1 + RECORDED
    loader = DataLoader(
        Tokens(args, steps * args.batch), args.batch, num_workers=1, prefetch_factor=2,
        pin_memory=args.plant != "pageable-copy",
    )
    if args.plant in ("cuda-graph", "compile"):
        # Captured, or compiled, before the profiler starts.
        for _ in range(2):
            trainer.step(0, torch.zeros(args.batch, args.length + 1, dtype=torch.long))
    host, events = [], []
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=WARMUP, warmup=1, active=RECORDED),
        record_shapes=True, profile_memory=True, with_stack=True,
    ) as profiler:
        for number, batch in enumerate(loader):
            start = time.perf_counter()
            events.append(torch.cuda.Event(enable_timing=True))
            events[-1].record()
            trainer.step(number, batch)
            host.append(time.perf_counter() - start)
            profiler.step()
    torch.cuda.synchronize()
    raw = base + ".raw.json"
    profiler.export_chrome_trace(raw)
    with open(raw) as file:
        text = without_paths(file.read())
    os.remove(raw)
    with gzip.open(base + ".kineto.json.gz", "wt", compresslevel=9) as file:
        file.write(text)
    if memory:
        snapshot = clean_snapshot(torch.cuda.memory._snapshot())
        with gzip.open(base + ".snapshot.pickle.gz", "wb", compresslevel=9) as file:
            pickle.dump(snapshot, file, protocol=4)
    between = [a.elapsed_time(b) for a, b in zip(events[WARMUP + 1 :], events[WARMUP + 2 :])]
    answer = {
        "plant": args.plant,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "steps_recorded": RECORDED,
        "steps_in_memory_history": steps if memory else 0,
        "host_ms_of_recorded_steps": [round(1e3 * s, 3) for s in host[WARMUP + 1 :]],
        "device_ms_between_starts_of_recorded_steps": [round(ms, 3) for ms in between],
        "median_device_ms": round(statistics.median(between), 3),
        "allocated_bytes_at_end": torch.cuda.memory_allocated(),
        "reserved_bytes_at_end": torch.cuda.memory_reserved(),
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        "planted": {
            "none": "nothing",
            "slow-loader": {"steps": SLOW_STEPS, "seconds_each": SLOW_SECONDS, "function": "decode_slowly"},
            "item": ".item() of the norm of each gradient in log_norms() after each backward pass",
            "pageable-copy": "64 MiB from pageable memory in copy_to_device() in each step",
            "tiny-kernels": "100 kernels on 4 KiB in clamp_slowly() in each block of each forward pass",
            "leak": {"bytes_each_step": 24 * MIB, "function": "remember"},
            "fragmentation": {"function": "keep_statistics", "bytes_each_step": 3 * MIB},
            "oom": {"step": OOM_STEP, "function": "try_a_large_batch"},
            "cuda-graph": "each step is one replay of a CUDA graph",
            "compile": "the model is compiled by torch.compile",
        }[args.plant],
        **trainer.facts,
    }
    with open(base + ".answer.json", "w") as file:
        json.dump(answer, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    main()
