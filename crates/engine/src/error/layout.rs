//! Why a layout is not created, found or deleted.

use kent_ids::{counted, layout::Unsafe};
use kent_proto::model::Invalid;
use thiserror::Error;

use crate::{auth::Denied, records::failure::StoreFailure};

/// Why a layout is not created, found or deleted.
#[derive(Debug, Error)]
pub enum LayoutError {
    /// The caller may not do this.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// A field of the request is invalid.
    #[error(transparent)]
    BadField(#[from] Invalid),
    /// The layout cannot be issued safely.
    #[error("{0}")]
    Unsafe(Unsafe),
    /// The layout has no time.
    #[error(
        "the layout has no field time: for identifiers that only count, create a region, whose order can be scrambled \
         (kent region create NAME --suffix N)"
    )]
    NoTime,
    /// The name is taken by another layout.
    #[error(
        "there already is a layout {name:?} with other fields or another text form: a layout never changes, so choose another name \
         (kent layout show {name})"
    )]
    Exists {
        /// The name.
        name: String,
    },
    /// There is no such layout.
    #[error("there is no layout {name:?}: `kent layout ls` lists all layouts")]
    NoSuchLayout {
        /// The name.
        name: String,
    },
    /// Identifiers may have been issued.
    #[error(
        "identifiers of layout {name:?} may have been issued, so it is kept, and nobody can create another layout under its name"
    )]
    Used {
        /// The name.
        name: String,
    },
    /// The layouts have not reached this revision.
    #[error("must be 0 to {present}, the current revision of the layouts")]
    Future {
        /// The current revision.
        present: u64,
    },
    /// The edits after this revision are no longer kept.
    #[error(
        "the daemon no longer has all edits of layouts after revision {after}: start again with a snapshot (after_revision 0)"
    )]
    Forgotten {
        /// The revision.
        after: u64,
    },
    /// There are too many layouts.
    #[error("there are {}, which is the maximum", counted(max, "layout"))]
    TooMany {
        /// The maximum.
        max: usize,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// Other replicas changed the layout in every attempt.
    #[error("{attempts} attempts to change the layout conflicted with other replicas; try again")]
    Contended {
        /// The number of attempts.
        attempts: u32,
    },
    /// The change was interrupted; whether it was committed is not known.
    #[error("the change was interrupted; `kent layout ls` shows whether it was made")]
    Abandoned,
}
