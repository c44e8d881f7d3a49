//! Call stacks of the simulated program's allocations.
//!
//! Innermost frame first, as PyTorch records them: the allocator's C++, the operator, then Python. The
//! backward pass runs on a thread without Python.

/// One line of a program.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub name: &'static str,
    pub file: &'static str,
    pub line: u32,
}

/// Innermost frame first. Frames are the same if their addresses are, as Python's objects.
pub type Stack = &'static [&'static Frame];

macro_rules! frames {
    ($($id:ident = $name:literal, $file:literal, $line:literal;)*) => {
        $(pub static $id: Frame = Frame { name: $name, file: $file, line: $line };)*
    };
}

macro_rules! stacks {
    ($($id:ident = $($frame:ident)*;)*) => { $(pub static $id: Stack = &[$(&$frame),*];)* };
}

frames! {
    MALLOC = "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**, signed char, unsigned \
              long, CUstream_st*)", "CUDACachingAllocator.cpp", 0;
    EMPTY = "at::detail::empty_generic(c10::ArrayRef<long>, c10::Allocator*, c10::DispatchKeySet, c10::ScalarType, \
             std::optional<c10::MemoryFormat>)", "??", 0;
    RELEASE = "c10::TensorImpl::release_resources()", "??", 0;
    ADDMM = "at::native::(anonymous namespace)::addmm_out_cuda_impl(at::Tensor&, at::Tensor const&, at::Tensor const&, \
             at::Tensor const&, c10::Scalar const&, c10::Scalar const&)", "Blas.cpp", 0;
    ENGINE = "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)", "engine.cpp", 0;
    EVALUATE = "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&, \
                torch::autograd::Node*, torch::autograd::InputBuffer&, std::shared_ptr<torch::autograd::ReadyQueue> \
                const&)", "engine.cpp", 0;
    ADDMM_BACKWARD = "torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor, \
                      std::allocator<at::Tensor> >&&)", "Functions.cpp", 0;
    NORM_BACKWARD = "torch::autograd::generated::NativeLayerNormBackward0::apply(std::vector<at::Tensor, \
                     std::allocator<at::Tensor> >&&)", "Functions.cpp", 0;
    FLASH_BACKWARD = "torch::autograd::generated::ScaledDotProductFlashAttentionBackward0::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)", "Functions.cpp", 0;
    GELU_BACKWARD = "torch::autograd::generated::GeluBackward0::apply(std::vector<at::Tensor, \
                     std::allocator<at::Tensor> >&&)", "Functions.cpp", 0;
    LOSS_BACKWARD = "torch::autograd::generated::NllLossBackward0::apply(std::vector<at::Tensor, \
                     std::allocator<at::Tensor> >&&)", "Functions.cpp", 0;
    ACCUMULATE = "torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)", "accumulate_grad.cpp", 0;
    SAVED = "torch::autograd::SavedVariable::reset_data()", "saved_variable.cpp", 0;
    CALL = "_call_impl", "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", 1784;
    WRAPPED = "_wrapped_call_impl", "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", 1773;
    LINEAR = "forward", "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", 125;
    LAYER_NORM = "layer_norm", "/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py", 2901;
    CROSS_ENTROPY = "cross_entropy", "/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py", 3458;
    CONVERT = "convert", "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", 1355;
    APPLY = "_apply", "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", 942;
    TO = "to", "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", 1369;
    INIT_GROUP = "_init_group", "/opt/venv/lib/python3.11/site-packages/torch/optim/adam.py", 172;
    MULTI_TENSOR = "_multi_tensor_adam", "/opt/venv/lib/python3.11/site-packages/torch/optim/adam.py", 717;
    ADAM_STEP = "step", "/opt/venv/lib/python3.11/site-packages/torch/optim/adam.py", 246;
    OPTIMIZER = "wrapper", "/opt/venv/lib/python3.11/site-packages/torch/optim/optimizer.py", 516;
    ZERO_GRAD = "zero_grad", "/opt/venv/lib/python3.11/site-packages/torch/optim/optimizer.py", 1015;
    EMPTY_CACHE = "empty_cache", "/opt/venv/lib/python3.11/site-packages/torch/cuda/memory.py", 224;
    ATTENTION_QKV = "forward", "/home/ada/minigpt/minigpt/model.py", 44;
    ATTENTION = "forward", "/home/ada/minigpt/minigpt/model.py", 47;
    ATTENTION_OUT = "forward", "/home/ada/minigpt/minigpt/model.py", 49;
    MLP_UP = "forward", "/home/ada/minigpt/minigpt/model.py", 66;
    MLP_GELU = "forward", "/home/ada/minigpt/minigpt/model.py", 67;
    MLP_DOWN = "forward", "/home/ada/minigpt/minigpt/model.py", 68;
    BLOCK_NORM = "forward", "/home/ada/minigpt/minigpt/model.py", 82;
    BLOCK_ATTENTION = "forward", "/home/ada/minigpt/minigpt/model.py", 83;
    BLOCK_MLP = "forward", "/home/ada/minigpt/minigpt/model.py", 84;
    MODEL_EMBED = "forward", "/home/ada/minigpt/minigpt/model.py", 118;
    MODEL_BLOCKS = "forward", "/home/ada/minigpt/minigpt/model.py", 121;
    MODEL_HEAD = "forward", "/home/ada/minigpt/minigpt/model.py", 124;
    MODEL_LOSS = "forward", "/home/ada/minigpt/minigpt/model.py", 126;
    BATCH = "to_device", "/home/ada/minigpt/minigpt/data.py", 63;
    RECORD = "record", "/home/ada/minigpt/minigpt/metrics.py", 33;
    LOOKUP = "lookup", "/home/ada/minigpt/minigpt/cache.py", 51;
    PAD = "pad_to_longest", "/home/ada/minigpt/minigpt/collate.py", 58;
    PACK = "pack", "/home/ada/minigpt/minigpt/collate.py", 71;
    EXTEND = "extend", "/home/ada/minigpt/minigpt/rotary.py", 72;
    AUGMENT = "mix_samples", "/home/ada/minigpt/minigpt/augment.py", 27;
    BUFFER = "get_buffer", "/home/ada/minigpt/minigpt/pool.py", 44;
    MASK = "build_mask", "/home/ada/minigpt/minigpt/buffers.py", 19;
    EVALUATE_FULL = "evaluate_full", "/home/ada/minigpt/minigpt/evaluate.py", 38;
    STEP_DATA = "train_step", "/home/ada/minigpt/train.py", 84;
    STEP_ZERO_GRAD = "train_step", "/home/ada/minigpt/train.py", 86;
    STEP_FORWARD = "train_step", "/home/ada/minigpt/train.py", 88;
    STEP_METRICS = "train_step", "/home/ada/minigpt/train.py", 90;
    STEP_OPTIMIZER = "train_step", "/home/ada/minigpt/train.py", 93;
    MAIN_MODEL = "main", "/home/ada/minigpt/train.py", 117;
    MAIN_LOOP = "main", "/home/ada/minigpt/train.py", 131;
    MAIN_EVALUATE = "main", "/home/ada/minigpt/train.py", 136;
    MODULE = "<module>", "/home/ada/minigpt/train.py", 142;
}

stacks! {
    MODEL_TO = MALLOC EMPTY CONVERT APPLY APPLY TO MAIN_MODEL MODULE;
    MOMENTS = MALLOC EMPTY INIT_GROUP ADAM_STEP OPTIMIZER STEP_OPTIMIZER MAIN_LOOP MODULE;
    FOREACH = MALLOC EMPTY MULTI_TENSOR ADAM_STEP OPTIMIZER STEP_OPTIMIZER MAIN_LOOP MODULE;
    FOREACH_FREE = RELEASE MULTI_TENSOR ADAM_STEP OPTIMIZER STEP_OPTIMIZER MAIN_LOOP MODULE;
    TO_DEVICE = MALLOC EMPTY BATCH STEP_DATA MAIN_LOOP MODULE;
    DROP_BATCH = RELEASE STEP_DATA MAIN_LOOP MODULE;
    DROP_GRADIENTS = RELEASE ZERO_GRAD STEP_ZERO_GRAD MAIN_LOOP MODULE;
    EMBED = MALLOC EMPTY MODEL_EMBED CALL WRAPPED STEP_FORWARD MAIN_LOOP MODULE;
    NORM = MALLOC EMPTY LAYER_NORM BLOCK_NORM CALL WRAPPED MODEL_BLOCKS CALL WRAPPED STEP_FORWARD MAIN_LOOP MODULE;
    QKV = MALLOC EMPTY ADDMM LINEAR CALL WRAPPED ATTENTION_QKV CALL WRAPPED BLOCK_ATTENTION CALL WRAPPED MODEL_BLOCKS CALL WRAPPED STEP_FORWARD MAIN_LOOP MODULE;
    FLASH = MALLOC EMPTY ATTENTION CALL WRAPPED BLOCK_ATTENTION CALL WRAPPED MODEL_BLOCKS CALL WRAPPED STEP_FORWARD MAIN_LOOP MODULE;
    FLASH_FREE = RELEASE ATTENTION CALL WRAPPED BLOCK_ATTENTION CALL WRAPPED MODEL_BLOCKS CALL WRAPPED STEP_FORWARD MAIN_LOOP MODULE;
    PROJECTION = MALLOC EMPTY ADDMM LINEAR CALL WRAPPED ATTENTION_OUT CALL WRAPPED BLOCK_ATTENTION CALL WRAPPED MODEL_BLOCKS CALL WRAPPED STEP_FORWARD MAIN_LOOP MODULE;
    UP = MALLOC EMPTY ADDMM LINEAR CALL WRAPPED MLP_UP CALL WRAPPED BLOCK_MLP CALL WRAPPED MODEL_BLOCKS CALL WRAPPED STEP_FORWARD MAIN_LOOP MODULE;
    GELU = MALLOC EMPTY MLP_GELU CALL WRAPPED BLOCK_MLP CALL WRAPPED MODEL_BLOCKS CALL WRAPPED STEP_FORWARD MAIN_LOOP MODULE;
    DOWN = MALLOC EMPTY ADDMM LINEAR CALL WRAPPED MLP_DOWN CALL WRAPPED BLOCK_MLP CALL WRAPPED MODEL_BLOCKS CALL WRAPPED STEP_FORWARD MAIN_LOOP MODULE;
    HEAD = MALLOC EMPTY ADDMM LINEAR CALL WRAPPED MODEL_HEAD CALL WRAPPED STEP_FORWARD MAIN_LOOP MODULE;
    LOSS = MALLOC EMPTY CROSS_ENTROPY MODEL_LOSS CALL WRAPPED STEP_FORWARD MAIN_LOOP MODULE;
    LINEAR_BACKWARD = MALLOC EMPTY ADDMM_BACKWARD EVALUATE ENGINE;
    NORM_GRADIENT = MALLOC EMPTY NORM_BACKWARD EVALUATE ENGINE;
    FLASH_GRADIENT = MALLOC EMPTY FLASH_BACKWARD EVALUATE ENGINE;
    GELU_GRADIENT = MALLOC EMPTY GELU_BACKWARD EVALUATE ENGINE;
    LOSS_GRADIENT = MALLOC EMPTY LOSS_BACKWARD EVALUATE ENGINE;
    GRADIENT = MALLOC EMPTY ACCUMULATE EVALUATE ENGINE;
    DROP_SAVED = RELEASE SAVED EVALUATE ENGINE;
    DROP_GRADIENT = RELEASE EVALUATE ENGINE;
    LEAK = MALLOC EMPTY RECORD STEP_METRICS MAIN_LOOP MODULE;
    HIDDEN_LEAK = MALLOC EMPTY LOOKUP STEP_FORWARD MAIN_LOOP MODULE;
    HIDDEN_LEAK_FREE = RELEASE LOOKUP STEP_FORWARD MAIN_LOOP MODULE;
    LONGEST = MALLOC EMPTY PAD STEP_DATA MAIN_LOOP MODULE;
    LONGEST_FREE = RELEASE PAD STEP_DATA MAIN_LOOP MODULE;
    PACKED = MALLOC EMPTY PACK STEP_DATA MAIN_LOOP MODULE;
    PACKED_FREE = RELEASE PACK STEP_DATA MAIN_LOOP MODULE;
    PIN = MALLOC EMPTY EXTEND STEP_DATA MAIN_LOOP MODULE;
    PIN_FREE = RELEASE EXTEND STEP_DATA MAIN_LOOP MODULE;
    RATCHET = MALLOC EMPTY AUGMENT STEP_DATA MAIN_LOOP MODULE;
    RATCHET_FREE = RELEASE AUGMENT STEP_DATA MAIN_LOOP MODULE;
    CACHE = MALLOC EMPTY BUFFER STEP_FORWARD MAIN_LOOP MODULE;
    SETUP = MALLOC EMPTY MASK STEP_FORWARD MAIN_LOOP MODULE;
    CLEAN = EMPTY_CACHE MAIN_EVALUATE MODULE;
    EVALUATION = MALLOC EMPTY EVALUATE_FULL MAIN_EVALUATE MODULE;
}

/// The innermost frame of a stack in the program's own files.
pub fn own_frame(stack: Stack) -> Option<&'static Frame> {
    stack.iter().copied().find(|frame| frame.file.starts_with("/home/"))
}
