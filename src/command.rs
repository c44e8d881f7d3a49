//! Every command: label, help and key in one table. Menu, palette and shortcut sheet follow from it.

/// Something a person can ask for by menu, key or palette. Run by the app after the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    OpenFile,
    OpenPath(std::path::PathBuf),
    CloseAll,
    Quit,
    ZoomIn,
    ZoomOut,
    PanLeft,
    PanRight,
    /// Shows all open traces from start to end.
    ZoomToFit,
    /// Centers the selection; on a second run, zooms to it.
    FocusSelection,
    ZoomToRange,
    UndoZoom,
    RedoZoom,
    /// The next slice of the same track and row.
    NextSlice,
    PreviousSlice,
    ParentSlice,
    ChildSlice,
    /// The next stretch of the selected slice's row in which nothing runs, as a time range.
    NextGap,
    PreviousGap,
    /// Along the arrow that leaves the selected slice, or to the kernel it launched.
    FollowFlow,
    FollowFlowBack,
    /// Clears the selected slice, then the selected range.
    Deselect,
    /// Marks the selected slice's start, else the middle of the view.
    MarkMoment,
    /// Marks the selected range.
    MarkRange,
    /// Makes the selected slice's time the selected range.
    RangeFromSelection,
    CollapseAll,
    ExpandAll,
    CopyName,
    Search,
    NextHit,
    PreviousHit,
    FindTrack,
    Palette,
    Shortcuts,
    ShowProblems,
    ToggleSidePanel,
    ToggleTheme,
    ScaleUp,
    ScaleDown,
    ScaleReset,
    ResetLayout,
}
