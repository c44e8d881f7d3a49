//! Generated inputs with known correct answers.
//!
//! One simulated training run is recorded as the PyTorch profiler ([`kineto`]) and as Nsight Systems ([`nsys`])
//! would record it. [`snapshot`] simulates PyTorch's allocator instead. The same seed gives the same bytes.

mod answer;
pub mod kineto;
pub mod nsys;
mod rng;
pub mod snapshot;
mod training;

pub use answer::Answer;
