#!/usr/bin/env python3
"""Records small training runs on the CPU, and what PyTorch's own operator table says of them.

Usage: torch_operators.py FOLDER

Writes NAME.json, the trace, and prints one JSON object a trace: {"file", "torch", "by_name": [row...],
"by_shape": [row...]}, a row being [name, shapes, calls, CPU total, self CPU total, CPU memory, self
CPU memory] of `key_averages()`: integer nanoseconds and bytes. Exits with 77 where torch is absent.
"""
import json
import os
import sys

try:
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function
except ImportError:
    sys.exit(77)


def train():
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), layer, torch.nn.LayerNorm(32), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters())

    def step(batch):
        with record_function("forward"):
            out = model(torch.randn(batch, 5, 16))
        loss = torch.nn.functional.cross_entropy(out.flatten(0, 1), torch.randint(4, (batch * 5,)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    step(3)
    for batch in (3, 3, 8):
        step(batch)


def rows(profiler, by_shape):
    ns = lambda us: round(us * 1000)
    return [
        [
            row.key,
            (json.dumps(row.input_shapes) if row.input_shapes else "") if by_shape else None,
            row.count,
            ns(row.cpu_time_total),
            ns(row.self_cpu_time_total),
            row.cpu_memory_usage,
            row.self_cpu_memory_usage,
        ]
        for row in profiler.key_averages(group_by_input_shape=by_shape)
        if not row.is_user_annotation and row.key != "[memory]"
    ]


def main():
    for name, options in (
        ("plain", {}),
        ("shapes", {"record_shapes": True}),
        ("memory", {"record_shapes": True, "profile_memory": True}),
    ):
        with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
            train()
        path = os.path.join(sys.argv[1], f"{name}.json")
        profiler.export_chrome_trace(path)
        tables = {"by_name": rows(profiler, False), "by_shape": rows(profiler, True)}
        print(json.dumps({"file": path, "torch": torch.__version__, **tables}))


if __name__ == "__main__":
    main()
