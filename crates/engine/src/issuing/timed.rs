//! The sources of time-based identifiers: the formats, and the custom layouts in use.

use std::{fmt, sync::Arc};

use kent_ids::{
    Format,
    layout::{Layout, Spelling},
};

/// A source of time-based identifiers.
#[derive(Clone, Debug)]
pub enum Timed {
    /// A format.
    Format(Format),
    /// A custom layout, and the value that the request supplies.
    Layout(Arc<UsedLayout>, u64),
}

/// A custom layout that is marked as used in the store. Such a layout never changes, so it is kept in memory forever.
#[derive(Debug)]
pub struct UsedLayout {
    pub(crate) name: String,
    /// The layout's number in this daemon's memory.
    pub(crate) number: u64,
    pub(crate) layout: Layout,
    /// The spelling of its identifiers.
    pub spelling: Spelling,
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(format) => f.write_str(format.token()),
            Self::Layout(layout, _) => write!(f, "layout:{}", layout.name),
        }
    }
}
