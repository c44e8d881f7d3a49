//! Every command: label, help and key in one table. Menu, palette and shortcut sheet follow from it.

/// Something a person can ask for by menu, key or palette. Run by the app after the frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    OpenFile,
    OpenPath(std::path::PathBuf),
}
