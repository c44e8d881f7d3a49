//! Frames that load data.

use super::{Frame, libraries};
use crate::analysis::words;

/// Folders and files of loaders, by the path inside `sys.path`.
const LOADERS: &str = "\
    torch/utils/data/ torchdata/ webdataset/ nvidia/dali/ ffcv/ litdata/ streaming/base/ accelerate/data_loader.py \
    datasets/arrow_dataset.py datasets/arrow_reader.py datasets/iterable_dataset.py datasets/formatting/ \
    datasets/table.py tensorflow/python/data/ tensorflow_datasets/ lightning/data/ \
    lightning/pytorch/loops/fetchers.py lightning/pytorch/utilities/combined_loader.py \
    pytorch_lightning/loops/fetchers.py pytorch_lightning/utilities/combined_loader.py \
    pytorch_lightning/utilities/fetching.py torch_geometric/loader/ torch_geometric/data/batch.py \
    torch_geometric/data/collate.py torch_geometric/data/dataset.py torch_geometric/data/in_memory_dataset.py \
    dgl/dataloading/ torchvision/datasets/ torchvision/io/ detectron2/data/ timm/data/ fairseq/data/ petastorm/ \
    transformers/data/data_collator.py grain/_src/ ray/data/ monai/data/ mmengine/dataset/ mmdet/datasets/ \
    ultralytics/data/ fastai/data/ lhotse/ spdl/ megatron/core/datasets/ keras/src/trainers/data_adapters/";
/// Functions of loaders that neither wait for data nor prepare them.
const OTHER: [&str; 7] =
    ["__len__", "<module>", "set_epoch", "__setattr__", "__getattr__", "state_dict", "load_state_dict"];
/// Functions of the user's program that load data if their file says so.
const ITERATE: [&str; 8] =
    ["__next__", "__iter__", "__getitem__", "__getitems__", "next", "collate", "collate_fn", "_next_data"];

/// Whether a loader of a library waits for the next batch, or prepares it.
pub fn is_of_library(frame: &Frame<'_>) -> bool {
    let file = frame.file;
    let is_in = |loader: &str| file.match_indices(loader).any(|(at, _)| at == 0 || file.as_bytes()[at - 1] == b'/');
    let is_loader = || LOADERS.split(' ').any(is_in) || collates(frame.function);
    libraries::contains(file) && !OTHER.contains(&frame.function) && is_loader()
}

/// Whether a function joins samples to a batch: `default_collate`, `_collate_fn`.
fn collates(function: &str) -> bool {
    words::words(function).iter().any(|word| matches!(word.as_str(), "collate" | "collator" | "collatefn"))
}

/// Whether a function of the user's program is named like one that loads data: `get_batch`, or `__next__` in
/// `data/loader.py`.
pub fn is_of_user(frame: &Frame<'_>) -> bool {
    if !ITERATE.contains(&frame.function) {
        return words::is_loading(&words::words(frame.function));
    }
    let path: Vec<&str> = frame.file.rsplit(['/', '\\']).take(2).collect();
    let of_data = |part: &&str| {
        let words = words::words(part.trim_end_matches(".py"));
        words.iter().any(|word| {
            matches!(word.as_str(), "data" | "dataset" | "datasets" | "loader" | "loaders" | "prefetcher" | "fetcher")
                || word.starts_with("dataload")
        })
    };
    path.iter().any(of_data)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADS: &str = "
        torch/utils/data/dataloader.py(703): __next__
        torch/utils/data/_utils/fetch.py(51): fetch
        torch/utils/data/_utils/collate.py(277): default_collate
        /opt/conda/lib/python3.10/site-packages/torch/utils/data/sampler.py(156): __iter__
        /opt/pytorch/torch/utils/data/dataloader.py(703): __next__
        accelerate/data_loader.py(560): __iter__
        datasets/iterable_dataset.py(1360): __iter__
        datasets/formatting/formatting.py(99): format
        mosaicml/streaming/base/dataset.py(1500): __iter__
        streaming/base/dataset.py(1500): __iter__
        ffcv/loader/epoch_iterator.py(160): __next__
        /opt/conda/lib/python3.10/site-packages/webdataset/pipeline.py(64): iterator
        tensorflow/python/data/ops/iterator_ops.py(766): __next__
        nvidia/dali/plugin/pytorch/__init__.py(220): __next__
        lightning/pytorch/loops/fetchers.py(102): __next__
        pytorch_lightning/utilities/fetching.py(184): __next__
        torchdata/nodes/base_node.py(100): __next__
        torch_geometric/data/batch.py(82): from_data_list
        torch_geometric/data/collate.py(37): collate
        dgl/batch.py(30): _collate_graphs
        /opt/p/lib/python3.11/site-packages/ray/data/iterator.py(180): _iter_batches
        /opt/p/lib/python3.11/site-packages/ultralytics/data/build.py(50): __iter__
        nanogpt/train.py(117): get_batch
        train.py(12): load_batch
        /home/u/proj/my_loader.py(12): next_batch
        /home/u/proj/data/loader.py(33): __next__
        /home/u/proj/dataset.py(44): __getitem__
        /home/u/proj/datasets/coco.py(44): __getitem__
        data_loader.py(9): collate_fn
        megatron/training/utils.py(300): get_batch_on_this_tp_rank
    ";
    const OTHER: &str = "
        torch/utils/data/dataloader.py(470): __len__
        torch/utils/data/dataloader.py(1): <module>
        torch/utils/checkpoint.py(480): checkpoint
        torch/nn/parallel/data_parallel.py(150): forward
        accelerate/accelerator.py(2100): backward
        transformers/trainer.py(3700): training_step
        lightning/pytorch/loops/fit_loop.py(100): advance
        datasets/coco.py(5): main
        /home/u/torchdata/train.py(5): main
        train.py(150): main
        /opt/p/lib/python3.11/site-packages/ray/train/trainer.py(180): fit
        train.py(99): train_batch
        train.py(30): forward_batch
        model.py(55): forward
        model.py(4): __next__
        model.py(70): __getitem__
        util.py(3): load
        util.py(3): load_checkpoint
        util.py(3): get_batch_size
        model.py(9): sample_next_token
        model.py(9): get_input
        /home/u/proj/datasets/augment.py(4): mixup
        diffusers/models/modeling_utils.py(1): load_data
        torch_geometric/data/data.py(358): to
        torch_geometric/nn/conv/gcn_conv.py(227): forward
        <built-in function next>
        nn.Module: DataEmbedding_0
    ";

    #[test]
    fn frames_that_load_data() {
        let names = |list: &'static str| list.lines().map(str::trim).filter(|name| !name.is_empty());
        for name in names(LOADS) {
            assert!(Frame::of_python_function(name).loads_data(), "{name}");
        }
        for name in names(OTHER) {
            assert!(!Frame::of_python_function(name).loads_data(), "{name}");
        }
    }
}
