//! Why floors are not raised.

use std::time::Duration;

use kent_ids::Series;
use kent_issue::BadFloor;
use kent_proto::model::Invalid;
use thiserror::Error;

use super::{EditError, SeriesError};
use crate::records::failure::StoreFailure;

/// Why floors are not raised.
#[derive(Debug, Error)]
pub enum FloorError {
    /// A field of the request is invalid.
    #[error(transparent)]
    BadField(#[from] Invalid),
    /// The source cannot continue above the floor.
    #[error("{source_name}: {}", because(refusal))]
    Refused {
        /// The source.
        source_name: String,
        /// The reason.
        refusal: BadFloor,
    },
    /// The clock is not trusted, so the time of a floor cannot be compared with it.
    #[error("the daemon's clock is not trusted, so a time cannot be compared with it (kent clock)")]
    NoClock,
    /// A series cannot be listed.
    #[error(transparent)]
    Series(#[from] SeriesError),
    /// Another replica may hold a chunk of the series below the floor, and would not drop it.
    #[error(
        "{series}: numbers are already reserved, and another replica may still issue those below the floor: on a cluster, raise the \
         floor of a series before its first use, or continue with another symbol"
    )]
    InUse {
        /// The series.
        series: Series,
    },
    /// The table of a region cannot be edited.
    #[error(transparent)]
    Edit(Box<EditError>),
    /// There is no such layout.
    #[error("there is no layout {name:?}: `kent layout ls` lists all layouts")]
    NoSuchLayout {
        /// The name.
        name: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// Other changes conflicted with every attempt.
    #[error("{attempts} attempts to raise the floors conflicted with grants or other replicas; try again")]
    Contended {
        /// The number of attempts.
        attempts: u32,
    },
    /// The change was interrupted; whether it was committed is not known.
    #[error("the change was interrupted; raise the floors again, which changes nothing if it was made")]
    Abandoned,
}

impl From<EditError> for FloorError {
    fn from(error: EditError) -> Self {
        Self::Edit(Box::new(error))
    }
}

fn because(refusal: &BadFloor) -> String {
    match refusal {
        BadFloor::NothingAbove { last } => {
            format!("no number is left above the floor, because the last one is {}; continue with another symbol", last)
        }
        BadFloor::NotPassed { wait } if *wait > Duration::from_secs(10 * 365 * 86_400) => {
            "the floor is years in the future, so it is probably not an identifier of this source".to_owned()
        }
        BadFloor::NotPassed { wait } => {
            let wait = humantime::format_duration(Duration::from_secs(wait.as_secs() + 1));
            format!("the time of the floor has not passed: try again in {wait}, after the old generator has stopped")
        }
    }
}
