use super::*;

#[test]
fn calls_are_recognized_in_all_their_spellings() {
    let expected = [
        (Role::Sync, "cudaDeviceSynchronize_v3020 cuStreamSynchronize_ptsz hipEventSynchronize cudaMemcpy_v3020"),
        (Role::Sync, "hipMemcpyWithStream cuMemcpyDtoH_v2 cuCtxSynchronize hipDeviceSynchronize"),
        (Role::CopyCall, "cudaMemcpyAsync_v3020 cuMemcpyHtoDAsync_v2 hipMemcpyAsync cudaMemcpy2DAsync_ptsz"),
        (Role::Launch, "cudaLaunchKernel_v7000 cuLaunchKernelEx hipExtModuleLaunchKernel hipLaunchKernel"),
        (Role::Launch, "cudaLaunchKernelExC cudaMemsetAsync_v3020 hipModuleLaunchKernel cuMemsetD8Async"),
        (Role::GraphLaunch, "cudaGraphLaunch_v10000 hipGraphLaunch cuGraphLaunch_ptsz"),
        (Role::Allocator, "cudaMalloc_v3020 cuMemAlloc_v2 cudaHostAlloc hipMalloc cudaMallocAsync_ptsz"),
        (Role::Allocator, "cudaFreeAsync_v11020 cuMemFreeAsync hipFreeAsync cudaHostRegister cuMemPoolTrimTo"),
        (Role::Free, "cudaFree_v3020 hipFree cuMemFree_v2 cudaFreeHost hipHostFree cuMemFreeHost cudaHostUnregister"),
        (Role::ModuleLoad, "cuModuleLoadDataEx cuLibraryLoadData cuLinkCreate_v2 nvrtcCompileProgram hipModuleLoad"),
        (Role::LazyLoad, "cudaFuncGetAttributes cuFuncSetAttribute cudaOccupancyMaxActiveBlocksPerMultiprocessor"),
        (Role::Call, "cudaEventQuery hipGetDevicePropertiesR0600 cuInit cudaStreamWaitEvent cuCtxCreate_v2"),
        (Role::Call, "cudaLaunchHostFunc_v10000 cudaStreamIsCapturing cuModuleGetLoadingMode cudaPeekAtLastError"),
    ];
    for (role, names) in expected {
        for name in names.split(' ') {
            assert_eq!(role_of(SliceKind::Runtime, name), role, "{name}");
        }
    }
}

#[test]
fn ordinary_runs_of_compiled_code_are_no_compilation() {
    let of = |kind, name: &str| role_of(kind, name);
    let (operator, python, range) = (SliceKind::Operator, SliceKind::PythonFunction, SliceKind::Annotation);
    assert_eq!(of(operator, "CompiledFunction"), Role::Operator);
    assert_eq!(of(operator, "TorchDynamo Cache Lookup"), Role::Operator);
    assert_eq!(of(operator, "triton_poi_fused__to_copy_1"), Role::Operator);
    assert_eq!(of(range, "Torch-Compiled Region: 0/0"), Role::Range);
    assert_eq!(of(range, "## Call CompiledFxGraph fp5r5 ##"), Role::Range);
    for name in [
        "torch/_dynamo/eval_frame.py(791): compile_wrapper",
        "torch/_compile.py(22): inner",
        "triton/compiler/compiler.py(487): launch_metadata",
        "torch/compiler/__init__.py(436): is_compiling",
        "torch/_inductor/output_code.py(590): __call__",
    ] {
        assert_eq!(of(python, name), Role::Python, "{name}");
    }
    assert_eq!(of(range, "_compile.compile_inner (dynamo_timed)"), Role::ModuleLoad);
    assert_eq!(of(range, "torch.compile: inductor"), Role::ModuleLoad);
    assert_eq!(of(python, "torch/_dynamo/convert_frame.py(12): _compile"), Role::ModuleLoad);
    assert_eq!(of(python, "torch/_inductor/compile_fx.py(700): compile_fx_inner"), Role::ModuleLoad);
}

#[test]
fn ranges_operators_and_frames_are_judged_by_name() {
    let expected = [
        (SliceKind::Annotation, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", Role::DataLoading),
        (SliceKind::Annotation, "## load_batch ##", Role::DataLoading),
        (SliceKind::Annotation, "data", Role::DataLoading),
        (SliceKind::Annotation, "train_batch", Role::Range),
        (SliceKind::Annotation, "DistributedDataParallel.forward", Role::Range),
        (SliceKind::Annotation, "aten::item, op_id = 7", Role::SyncOperator),
        (SliceKind::Annotation, "jit_forward", Role::Range),
        (SliceKind::Annotation, "MPI_Allreduce", Role::CollectiveRange),
        (SliceKind::Annotation, "nccl allreduce + forward", Role::CollectiveRange),
        (SliceKind::Annotation, "ncclAllReduce", Role::Collective),
        (SliceKind::Operator, "aten::batch_norm", Role::Operator),
        (SliceKind::Operator, "vllm::all_reduce", Role::Operator),
        (SliceKind::Operator, "All2All_Pooled_Wait", Role::Operator),
        (SliceKind::Operator, "## load_batch ##", Role::DataLoading),
        (SliceKind::Operator, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", Role::DataLoading),
        (SliceKind::PythonFunction, "Python GC", Role::Gc),
        (SliceKind::PythonFunction, "deepspeed/comm/comm.py(400): barrier", Role::Collective),
        (SliceKind::PythonFunction, "torch/distributed/_functional_collectives.py(140): wait_tensor", Role::Collective),
        (SliceKind::PythonFunction, "deepspeed/runtime/engine.py(400): step", Role::Python),
        (SliceKind::PythonFunction, "torch/fx/experimental/proxy_tensor.py(1000): make_fx", Role::ModuleLoad),
        (SliceKind::PythonFunction, "torch/_functorch/aot_autograd.py(6): aot_module_simplified", Role::ModuleLoad),
        (SliceKind::PythonFunction, "triton/testing.py(60): do_bench", Role::ModuleLoad),
        (SliceKind::PythonFunction, "triton/runtime/autotuner.py(160): run", Role::Python),
        (SliceKind::PythonFunction, "cupy/cuda/compiler.py(500): compile_with_cache", Role::ModuleLoad),
        (SliceKind::PythonFunction, "numba/cuda/compiler.py(100): compile", Role::ModuleLoad),
        (SliceKind::PythonFunction, "jax/_src/compiler.py(292): backend_compile", Role::ModuleLoad),
        (SliceKind::PythonFunction, "tilelang/jit/__init__.py(80): compile", Role::ModuleLoad),
        (SliceKind::PythonFunction, "re/_compiler.py(740): compile", Role::Python),
        (SliceKind::Annotation, "IteratorGetNext", Role::DataLoading),
        (SliceKind::Annotation, "on_backward_end", Role::Range),
        (SliceKind::PythonFunction, "train.py(117): get_batch", Role::DataLoading),
        (SliceKind::Annotation, "ProfilerStep#5", Role::Range),
        (SliceKind::Annotation, "## forward ##", Role::Range),
        (SliceKind::Annotation, "Python GC", Role::Gc),
        (SliceKind::Annotation, "nccl:all_reduce", Role::Collective),
        (SliceKind::Operator, "c10d::allreduce_", Role::Collective),
        (SliceKind::Operator, "torch.distributed.ddp.reducer::copy_bucket_to_grad", Role::Operator),
        (SliceKind::Operator, "aten::item", Role::SyncOperator),
        (SliceKind::Operator, "aten::_to_copy", Role::CopyOperator),
        (SliceKind::PythonFunction, "torch/utils/data/dataloader.py(703): __next__", Role::DataLoading),
        (SliceKind::PythonFunction, "<built-in method item of Tensor object at 0x7f>", Role::SyncOperator),
        (SliceKind::PythonFunction, "<built-in method item of numpy.int32 object at 0x7f>", Role::Python),
        (SliceKind::PythonFunction, "<built-in function _cuda_synchronize>", Role::Sync),
        (SliceKind::PythonFunction, "<built-in method run_backward of torch._C._EngineBase object>", Role::PythonWait),
        (SliceKind::PythonFunction, "<built-in function collect>", Role::Gc),
        (SliceKind::PythonFunction, "torch/distributed/distributed_c10d.py(722): WORLD", Role::Python),
        (SliceKind::PythonFunction, "torch/distributed/distributed_c10d.py(722): all_reduce", Role::Collective),
        (SliceKind::Os, "pthread_cond_wait", Role::OsWait),
        (SliceKind::Os, "read", Role::Os),
        (SliceKind::Overhead, "CUPTI Buffer flush", Role::Profiler),
        (SliceKind::Overhead, "CUDA profiling data flush on cudaProfilerStop", Role::Profiler),
        (SliceKind::Overhead, "Lazy Function Loading", Role::ModuleLoad),
        (SliceKind::Overhead, "TLS allocation", Role::Profiler),
        (SliceKind::Overhead, "OS runtime libraries profiling initialization", Role::Profiler),
        (SliceKind::Overhead, "dlopen(libnvstop_resource.so)", Role::ModuleLoad),
        (SliceKind::Overhead, "Command Buffer Full", Role::Nothing),
    ];
    for (kind, name, role) in expected {
        assert_eq!(role_of(kind, name), role, "{name}");
    }
}
