//! The samples on the welcome page, generated into the program's data folder when one is opened.

use std::fs::File;
use std::io::{BufWriter, Result, Write as _};
use std::path::{Path, PathBuf};

use crate::capture::partial::Partial;
use crate::sample::planted::GapPlan;
use crate::sample::snapshot::Plant;
use crate::sample::{kineto, nsys, planted, snapshot};

/// The same in every run of the program.
const SEED: u64 = 1;

/// A sample that can be opened.
#[derive(Debug)]
pub struct Sample {
    pub title: &'static str,
    pub help: &'static str,
    file: &'static str,
    write: fn(&Path) -> Result<()>,
}

impl Sample {
    /// Where it lies in the folder of the samples.
    pub fn path(&self, folder: &Path) -> PathBuf {
        folder.join(self.file)
    }
}

/// All samples, in the order of the welcome page.
pub const SAMPLES: [Sample; 5] = [
    Sample {
        title: "GPU with idle time",
        help: "PyTorch profiler: short steps with every cause of idle time",
        file: "idle-gpu.json",
        write: |path| {
            let shape = planted::Shape { steps: 12, seed: SEED, plan: GapPlan::Various };
            to_file(path, |sink| planted::write_kineto(shape, sink).map(drop))
        },
    },
    Sample {
        title: "Training, PyTorch profiler",
        help: "Ten steps with operators, kernels, communication and memory",
        file: "training.json",
        write: |path| {
            let shape = kineto::Shape { steps: 10, seed: SEED, is_array: false };
            to_file(path, |sink| kineto::write(shape, sink).map(drop))
        },
    },
    Sample {
        title: "Training, Nsight Systems",
        help: "The same training recorded by nsys: an SQLite export with CUDA graphs, NVTX and metrics",
        file: "training.sqlite",
        write: |path| {
            File::create(path)?;
            nsys::write(nsys::Shape { steps: 10, seed: SEED, schema: nsys::Schema::default() }, path).map(drop)
        },
    },
    Sample {
        title: "Memory leak",
        help: "PyTorch memory snapshot: two places leak memory in each step",
        file: "leak.pickle",
        write: |path| write_snapshot(path, Plant::SteadyLeak),
    },
    Sample {
        title: "Out of memory",
        help: "PyTorch memory snapshot of a run that needs more memory than the device has",
        file: "out-of-memory.pickle",
        write: |path| write_snapshot(path, Plant::Oom),
    },
];

/// The folder of the samples: beside the settings, else among temporary files.
pub fn folder() -> PathBuf {
    eframe::storage_dir("lacuna").unwrap_or_else(|| std::env::temp_dir().join("lacuna")).join("samples")
}

/// Generates the file at `path` if it is a sample of `folder` that is not there yet.
///
/// Errors: the file cannot be written.
pub fn generate(path: &Path, folder: &Path) -> Result<()> {
    let Some(sample) = SAMPLES.iter().find(|sample| sample.path(folder) == path).filter(|_| !path.exists()) else {
        return Ok(());
    };
    std::fs::create_dir_all(folder)?;
    let partial = Partial::beside(path)?;
    (sample.write)(partial.path())?;
    partial.replace(path)
}

fn to_file(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let mut sink = BufWriter::new(File::create(path)?);
    write(&mut sink)?;
    sink.flush()
}

fn write_snapshot(path: &Path, plant: Plant) -> Result<()> {
    let shape = snapshot::Shape {
        steps: 10,
        seed: SEED,
        layers: 6,
        protocol: 4,
        has_times: true,
        max_entries: None,
        is_expandable: false,
        plants: vec![plant],
    };
    to_file(path, |sink| snapshot::write(&shape, sink).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Progress;
    use crate::reader;

    #[test]
    fn every_sample_is_generated_once_and_read() {
        let folder = std::env::temp_dir().join(format!("lacuna-samples-{}", std::process::id()));
        for sample in &SAMPLES {
            let path = sample.path(&folder);
            generate(&path, &folder).unwrap();
            let traces = reader::read(&path, &Progress::default()).unwrap();
            assert!(traces.iter().all(|trace| trace.import.shown > 100), "{}", sample.title);
        }
        let other = folder.join("other.json");
        generate(&other, &folder).unwrap();
        assert!(!other.exists() && std::fs::read_dir(&folder).unwrap().count() == SAMPLES.len());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
