//! Questions about memory and their answers.

pub mod find;
#[cfg(test)]
mod fixture;
pub mod labels;
pub mod signature;
