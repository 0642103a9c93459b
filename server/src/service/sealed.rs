//! Names the sealed region that stops grants, or conceals its name from callers that may not know it.

use kent_engine::{
    auth::Caller,
    tables::{permitted::is_known, space::Space},
};
use kent_proto::model;
use kent_regions::Region;

/// Returns the resource name of a sealed region, or [`model::CONCEALED`]; empty if there is none.
pub(super) fn sealed_by(caller: &Caller, seal: Option<(&Space, Region)>) -> String {
    match seal {
        None => String::new(),
        Some((space, region)) if is_known(space, caller, &region) => model::region_name(&space.name(), &region.name),
        Some(_) => model::CONCEALED.to_owned(),
    }
}
