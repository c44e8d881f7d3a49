//! The endpoint where Kineto has no interface of a daemon.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;

use super::Options;
use crate::capture::launch::Exit;
use crate::capture::pytorch::Process;

/// There is none: [`Self::open`] fails.
#[derive(Debug)]
pub enum Endpoint {}

impl Endpoint {
    pub fn open(_folder: &Path, _options: &Options, _is_configured: bool) -> Result<Self> {
        Err(Error::from(ErrorKind::Unsupported))
    }

    pub fn trigger(&self) -> usize {
        match *self {}
    }

    pub fn n_ready(&self) -> usize {
        match *self {}
    }

    pub fn is_busy(&self) -> bool {
        match *self {}
    }

    pub fn holds(&self) -> bool {
        match *self {}
    }

    pub fn processes(&self) -> Vec<Process> {
        match *self {}
    }

    pub fn warning(&self) -> Option<String> {
        match *self {}
    }

    pub fn finish(&self, _exit: Exit) -> Vec<String> {
        match *self {}
    }
}
