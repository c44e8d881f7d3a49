//! Generated inputs with known correct answers.
//!
//! One simulated training run is recorded as the PyTorch profiler ([`kineto`]) and as Nsight Systems ([`nsys`])
//! would record it; [`planted`] are shorter runs in which every cause of idle time is known. [`snapshot`] simulates
//! PyTorch's allocator instead. The same seed gives the same bytes.

mod answer;
pub mod kineto;
pub mod nsys;
pub mod planted;
mod rng;
pub mod snapshot;
mod training;

pub use answer::Answer;
