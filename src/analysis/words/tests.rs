use super::*;

/// Names of real traces, and of libraries.
const LOADS: &str = "
    enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
    enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
    [pl][profile][_TrainingEpochLoop].train_dataloader_next
    [pl][profile]_TrainingEpochLoop.train_dataloader_next
    [pl][profile][_EvaluationLoop].val_next
    [pl][profile][_PredictionLoop].predict_next
    [pl][profile][LightningDataModule]Images.train_dataloader
    ## wait_for_training_batch ##
    ## wait_for_batch ##
    ## load_batch ##
    ## data_load ##
    ## load data ##
    data
    ## data ##
    load
    data_loading
    DataLoading
    data loading 3
    dataload
    dataloader
    dataloader_iter_next
    DataLoader.next
    loader
    train_loader
    next(loader)
    next(iter(train_loader))
    load_batch
    load_batch_12
    batch_load
    loadBatch
    LoadMicroBatch
    get_batch
    get_next_batch
    get_batch_on_this_tp_rank
    next_batch
    next_batch2
    fetch_batch
    fetch next batch
    batch_fetch
    batch_generator
    data_iterator
    prepare_batch
    prepare_data
    preprocess
    preprocess_batch
    image_preprocessing
    data_preprocessing
    data_time
    data_wait
    wait for data
    waiting for next batch
    await_batch
    fetch_data
    data_fetch
    read_sample
    read_images
    load_image
    load_images
    load_image_batch
    load_input
    image_loader
    video_reader
    read_records
    load_dataset
    input_pipeline
    data_pipeline
    data_augmentation
    collate
    collate_fn
    collate_batch
    prefetch
    prefetch_batch
    prefetcher.next
    data_prefetcher
";
/// The same for names of no topic.
const NOTHING: &str = "
    step_5
    training_step
    train_batch
    train_step
    epoch_3
    batch 7
    Batch 12
    Batch
    micro_batch 3
    micro-batch 0
    train on batch
    train over data
    process_batch
    process data
    [pl][profile]run_training_batch
    training_step_batch
    [pl][profile][LightningModule]Net.on_train_batch_start
    validate_data_types
    data_parallel
    DataParallel
    fetch_data_parallel_params
    FullyShardedDataParallel._prefetch_handles
    load_checkpoint
    load_state_dict
    dataloader_state_dict
    save_dataloader_state
    load_balance
    load balancing
    data_load_balancing
    offload_states
    offload_activations
    unload_lora
    reload
    download
    payload
    workload
    database
    update_metadata
    batch_norm_stats
    BatchNorm2d
    batched_nms
    get_batch_size
    batch_time
    batch_decode
    all_data_done
    generate_data
    post_processing
    postprocess
    sample_next_token
    next_token
    get_input
    next_image
    prepare_inputs
    image_decoder
    model_loader
    load_image_encoder
    model_loader_time
    reader
    tokenize
    compute_attention_mask
    logging
    log_metrics
    ## sdd_wait_tensors ##
    ## sdd_preprocess_splits ##
    ## EmbeddingBagCollectionAwaitable wait() ##
    ## copy_batch_to_gpu ##
    ## metrics:publish ##
    ## qat ##
    myelinTensorGetInputMemoryBatch
    myelinGraphLoad
    Reformatting CopyNode for Input Tensor 0 to /Reshape
    executor_utils::bindInputs
    execute_context_1(888_788544)_generation_0(0)
    generation
    ProfilerStep#3
    aten::batch_norm
    aten::_to_copy, seq = 3
    on_before_optimizer_step
    [pl][profile][Callback]Timer.on_after_backward
    forward_backward
    opt_1.3b
    warmup
    Torch-Compiled Region: 0/0
    ## Call CompiledFxGraph fp5r5 ##
    TorchDynamo Cache Lookup
    CompiledFunction
    CompiledKernel::CompiledKernel
    compiled_model
    is_compiling
    CachingAutotuner.run
    InnerPersistentKernelScheduler::canScheduleCompileTime
    dynamo_wrapped_model
    triton_attention
    generateCudaKernel
    gc-disabled region
    gc_free_step
    gc_layer_3
    freeze gc
    sync_region
    reduce_max
    gather_metrics
    broadcast_shape
    Operators.broadcast_in_dim
    GpuLower::Lower::insertRawThreadSynchronization
    allocate_kv_blocks
";

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().map(str::trim).filter(|name| !name.is_empty())
}

#[test]
fn names_of_data_loading_and_names_alike() {
    for name in names(LOADS) {
        assert_eq!(topic(name), Some(Topic::DataLoading), "{name}");
    }
    for name in names(NOTHING) {
        assert_eq!(topic(name), None, "{name}");
    }
    assert_eq!(topic(""), None);
}

#[test]
fn names_of_other_topics() {
    use Topic::{Backward, Communication, Compilation, Copies, Forward, GarbageCollection, Optimizer};
    let expected = [
        (
            Forward,
            "## forward ##|forward_pass|forward_batch|loss_computation|DistributedDataParallel.forward|ZeRO-3_forward|\
             FullyShardedDataParallel.forward|FullyShardedDataParallel._pre_forward|FSDP::root_pre_forward|\
             nn.DataParallel.forward|data parallel forward|jit_forward|compiled_forward|compile-free forward|\
             triton_attention_forward|FSDPForward|poolformer_forward|load balancing loss",
        ),
        (
            Backward,
            "[pl][profile][Strategy]DDPStrategy.backward|ZeRO-3_backward|DeepSpeedZeroOptimizer_Stage3.backward|\
             loss_backward|BackwardPass|AddmmBackward0|prefetch_batch_backward",
        ),
        (
            Optimizer,
            "Optimizer.step#AdamW.step|[pl][profile][LightningModule]Net.optimizer_step|ZeRO-3_step|\
             DeepSpeedEngine.step|## zero_grad ##|Optimizer.zero_grad#SGD.zero_grad|ZeroRedundancyOptimizer.step|\
             offload_optimizer|clip_grad_norm",
        ),
        (Copies, "data_transfer|transfer_batch_to_device|batch_h2d|h2d|HtoD copy|H2DCopy"),
        (
            Communication,
            "nccl:all_reduce|## all2all_data:lengths_wait ##|## alltoall_fwd_single ##|reduce_scatter_gradients|\
             all_reduce|AllReduce|MPI_Allreduce|MPI_Barrier|MPI_Waitall|horovod_allreduce|HOROVOD_BROADCAST|\
             hvd.allreduce|dist.barrier|gloo:barrier|barrier|## wait_sparse_data_dist ##|comm:send|ncclAllReduce|nccl \
             allreduce + forward",
        ),
        (
            Compilation,
            "triton_compile|inductor_compile|Dynamo compile|_compile.compile_inner (dynamo_timed)|jit compile|\
             compile_fx.<locals>.fw_compiler_base (dynamo_timed)|entire_frame_compile|XlaCompile|\
             backend_compile (dynamo_timed)|CachingAutotuner.benchmark_all_configs|torch.compile: inductor|\
             CompiledKernel::compile|ExecutorDispatch::compile2|FusionKernelRuntime::compileKernel|\
             executor_utils::Nvrtc::CompileProgram|executor_utils::Nvrtc::LoadPTX|autotune|load_module|Module load|\
             recompilation 3",
        ),
        (GarbageCollection, "gc|GC|gc.collect|Python GC|Python GC (generation 2)|garbage collection|manual_gc"),
    ];
    for (expected, names) in expected {
        for name in names.split('|') {
            assert_eq!(topic(name), Some(expected), "{name}");
        }
    }
}

#[test]
fn names_are_split_into_words() {
    for (name, expected) in [
        ("DataLoader.next_batch2", "data loader next batch"),
        ("FSDPForward", "fsdp forward"),
        ("## all2all_data:lengths_wait ##", "all2all data lengths wait"),
        ("H2DCopy 12", "h2d copy"),
        ("_TrainingEpochLoop#train/step", "training epoch loop train step"),
        ("", ""),
    ] {
        assert_eq!(words(name).join(" "), expected, "{name}");
    }
}
