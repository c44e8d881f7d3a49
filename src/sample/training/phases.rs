//! The training of a six-block transformer: its operators, phase by phase, and the planted stalls.

use super::event::{Event, Graphs, Transfer};
use super::gpu::{COMMS, COMPUTE};
use super::kernels::{
    ADAM, ADD, ALL_REDUCE, FLASH, FLASH_WORK, GELU, GELU_WORK, GEMM, LINEAR_WORK, LOSS, LOSS_WORK, NORM, NORM_WORK,
    Work,
};
use super::{AUTOGRAD_TID, PID, Run};

const N_BLOCKS: usize = 6;
/// Bytes of one activation tensor.
const ACTIVATION: i64 = 16 << 20;

/// A step of the backward pass, noted by the forward pass.
#[derive(Debug)]
pub struct Node {
    name: &'static str,
    sequence: u64,
    /// When the forward operator started, in ns.
    start: i64,
    work: Work,
}

impl Run<'_> {
    /// The next batch, from a loader that is slow now and then, and its copy to the GPU.
    pub fn load_batch(&mut self, step: u32) {
        let start = self.now;
        self.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", |run| {
            run.frame("torch/utils/data/dataloader.py(733): __next__", |run| {
                run.frame("dataset.py(27): __getitem__", |run| run.spend(250_000, 420_000));
                if step % 7 == 3 {
                    run.frame("dataset.py(41): read_shard", |run| run.spend(12_000_000, 19_000_000));
                    run.stalled("loader", step, start);
                }
            });
        });
        self.operator("aten::to", "[[8, 1024], [], [], [], []]", |run| {
            run.operator("aten::_to_copy", "[[8, 1024], [], [], [], []]", |run| {
                run.operator("aten::copy_", "[[8, 1024], [8, 1024], []]", |run| {
                    run.copy(Transfer::PinnedToDevice, 8 * 1024 * 8);
                });
            });
        });
    }

    pub fn forward(&mut self) {
        self.frame("nn.Module: Transformer_0", |run| {
            for block in 0..N_BLOCKS {
                run.frame(&format!("nn.Module: Block_{block}"), |run| run.forward_block(block));
            }
            run.frame("torch/nn/functional.py(3029): cross_entropy", |run| {
                run.node("NllLossBackward0", &LOSS_WORK);
                run.operator("aten::cross_entropy_loss", "[[8192, 32000], [8192], [], [], [], []]", |run| {
                    run.operator("aten::_log_softmax", "[[8192, 32000], [], []]", |run| run.launch(&LOSS));
                });
            });
        });
    }

    fn forward_block(&mut self, block: usize) {
        self.layer_norm(2 * block);
        self.linear(4 * block, "[[8192, 1024], [3072, 1024], [3072]]");
        self.node("ScaledDotProductFlashAttentionBackward0", &FLASH_WORK);
        let heads = "[[8, 16, 1024, 64], [8, 16, 1024, 64], [8, 16, 1024, 64], [], [], [], []]";
        self.operator("aten::scaled_dot_product_attention", heads, |run| {
            run.operator("aten::_flash_attention_forward", heads, |run| {
                run.allocate(ACTIVATION);
                run.launch(&FLASH);
            });
        });
        self.linear(4 * block + 1, "[[8192, 1024], [1024, 1024], [1024]]");
        self.operator("aten::add", "[[8, 1024, 1024], [8, 1024, 1024], []]", |run| run.launch(&ADD));
        self.layer_norm(2 * block + 1);
        self.linear(4 * block + 2, "[[8192, 1024], [4096, 1024], [4096]]");
        self.frame(&format!("nn.Module: GELU_{block}"), |run| {
            run.node("GeluBackward0", &GELU_WORK);
            run.operator("aten::gelu", "[[8, 1024, 4096], []]", |run| {
                run.allocate(ACTIVATION);
                run.launch(&GELU);
            });
        });
        self.linear(4 * block + 3, "[[8192, 4096], [1024, 4096], [1024]]");
        self.operator("aten::add", "[[8, 1024, 1024], [8, 1024, 1024], []]", |run| run.launch(&ADD));
    }

    fn layer_norm(&mut self, index: usize) {
        self.frame(&format!("nn.Module: LayerNorm_{index}"), |run| {
            run.node("NativeLayerNormBackward0", &NORM_WORK);
            run.operator("aten::layer_norm", "[[8, 1024, 1024], [], [1024], [1024], [], []]", |run| {
                run.operator("aten::native_layer_norm", "[[8, 1024, 1024], [], [1024], [1024], []]", |run| {
                    run.allocate(ACTIVATION);
                    run.launch(&NORM);
                });
            });
        });
    }

    fn linear(&mut self, index: usize, dims: &str) {
        self.frame(&format!("nn.Module: Linear_{index}"), |run| {
            run.node("AddmmBackward0", &LINEAR_WORK);
            run.operator("aten::linear", dims, |run| {
                run.operator("aten::t", "", |run| run.operator("aten::transpose", "", |_| {}));
                run.operator("aten::addmm", dims, |run| {
                    run.allocate(ACTIVATION);
                    run.runtime("cudaStreamIsCapturing", 317);
                    run.launch(&GEMM);
                });
            });
        });
    }

    /// Notes that the operator that starts now needs a backward step.
    fn node(&mut self, name: &'static str, work: Work) {
        self.graph.push(Node { name, sequence: self.next_sequence, start: self.now, work });
        self.next_sequence += 1;
    }

    /// Runs the graph backwards on a thread of its own; a block's gradients are reduced when complete.
    pub fn backward(&mut self) {
        self.frame("torch/autograd/__init__.py(266): backward", |run| {
            run.tid = AUTOGRAD_TID;
            run.spend(15_000, 30_000);
            let graph = std::mem::take(&mut run.graph);
            for (done, node) in graph.iter().rev().enumerate() {
                run.backward_step(node);
                if done > 0 && done % 8 == 0 {
                    run.all_reduce();
                }
            }
            run.order(COMPUTE, COMMS);
            run.tid = PID;
            run.spend(8_000, 16_000);
        });
    }

    fn backward_step(&mut self, node: &Node) {
        let outer = format!("autograd::engine::evaluate_function: {}", node.name);
        let &Node { sequence, start, .. } = node;
        self.backward_node(&outer, sequence, |run| {
            run.recorder.record(&Event::Backward { sequence, forward: start, now: run.now });
            run.backward_node(node.name, sequence, |run| {
                for (operator, kernel) in node.work {
                    run.operator(operator, "[[1024, 8192], [8192, 1024]]", |run| run.launch(kernel));
                }
            });
            if node.name != "NllLossBackward0" {
                run.allocate(-ACTIVATION);
            }
        });
    }

    fn all_reduce(&mut self) {
        self.operator("c10d::allreduce_", "[[], [], [], [], [], []]", |run| {
            run.annotation("nccl:all_reduce", |run| {
                run.order(COMMS, COMPUTE);
                let more = ", \"Collective name\": \"allreduce\", \"In msg nelems\": 12596224, \"Out msg nelems\": \
                            12596224, \"Group size\": 2, \"dtype\": \"BFloat16\", \"In split size\": \"[]\", \"Out \
                            split size\": \"[]\", \"Process Group Name\": \"0\", \"Process Group Description\": \"default_pg\", \"Process Group Ranks\": \"[0, 1]\"";
                run.launch_on(COMMS, &ALL_REDUCE, more);
            });
        });
    }

    pub fn optimizer(&mut self) {
        self.frame("torch/optim/optimizer.py(474): wrapper", |run| {
            run.annotation("Optimizer.step#AdamW.step", |run| {
                if run.graphs != Graphs::Unused {
                    return run.launch_graph(&[&ADAM; 4]);
                }
                for _ in 0..4 {
                    run.operator("aten::_fused_adamw_", "", |run| run.launch(&ADAM));
                }
            });
            run.annotation("Optimizer.zero_grad#AdamW.zero_grad", |run| {
                run.operator("aten::zero_", "[[12596224]]", |run| run.clear(25_192_448));
            });
        });
    }

    /// Planted: the loss is read back, which drains the GPU, and then logged slowly.
    pub fn log_loss(&mut self, step: u32) {
        let start = self.now;
        self.frame("train.py(47): log_loss", |run| {
            run.operator("aten::item", "[[]]", |run| {
                run.operator("aten::_local_scalar_dense", "[[]]", |run| {
                    run.copy(Transfer::DeviceToPageable, 4);
                    run.runtime_until("cudaStreamSynchronize", 131, run.free[COMPUTE.slot] + 6_000);
                });
            });
            run.frame("<built-in method write of _io.TextIOWrapper object at 0x7f12>", |run| {
                run.spend(2_500_000, 4_500_000);
            });
        });
        self.stalled("sync", step, start);
    }

    /// Planted: the caching allocator has no block left and asks the driver, which takes its time.
    pub fn grow_pool(&mut self, step: u32) {
        let start = self.now;
        self.operator("aten::empty", "[[], [], [], [], [], []]", |run| {
            let until = run.now + run.rng.between(11_000_000, 16_000_000);
            run.runtime_until("cudaMalloc", 20, until);
        });
        self.stalled("allocator", step, start);
    }

    /// Planted: Python collects garbage for longer than the GPU has work queued.
    pub fn collect_garbage(&mut self, step: u32) {
        let start = self.now;
        self.frame("<built-in function collect>", |run| run.spend(14_000_000, 21_000_000));
        self.stalled("gc", step, start);
    }
}
