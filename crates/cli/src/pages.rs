//! Reads tables from a daemon, page by page.

use std::collections::HashSet;

use kent_client::Daemon;
use kent_proto::v1::{ListRegionsRequest, Region};

use crate::connect::request;
use crate::failure::Failure;
use crate::names;

/// The value of `at_revision` that means the current revision.
pub(crate) const PRESENT: u64 = 0;

/// The maximum number of regions per page.
const PAGE_SIZE: u32 = 1000;

/// Returns all regions of a space in the order of their prefixes, outer regions before inner ones.
pub(crate) async fn all(space: &str, at_revision: u64, daemon: &Daemon) -> Result<Vec<Region>, Failure> {
    let mut regions = Vec::new();
    let collect = |page| {
        regions.extend(page);
        Ok(())
    };
    pages(space, at_revision, daemon, collect).await?;
    Ok(regions)
}

/// Returns all regions of a space and of the spaces delegated inside it. The regions of a delegated space follow those
/// of the outer space. The top-level regions of a delegated space get the delegated region as their parent.
pub(crate) async fn nested(space: &str, daemon: &Daemon) -> Result<Vec<Region>, Failure> {
    let mut regions = all(space, PRESENT, daemon).await?;
    // Ends the loop even if an invalid response contains a cycle.
    let mut seen = HashSet::from([names::space(space)]);
    let mut at = 0;
    while let Some(Region { name, delegated_space, .. }) = regions.get(at).cloned() {
        at += 1;
        if delegated_space.is_empty() || !seen.insert(delegated_space.clone()) {
            continue;
        }
        let mut inner = all(names::short(&delegated_space), PRESENT, daemon).await?;
        inner.iter_mut().filter(|region| region.parent.is_empty()).for_each(|region| region.parent = name.clone());
        regions.extend(inner);
    }
    Ok(regions)
}

/// Passes the regions of a space to `take`, page by page.
pub(crate) async fn pages(
    space: &str,
    at_revision: u64,
    daemon: &Daemon,
    mut take: impl FnMut(Vec<Region>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut page_token = String::new();
    loop {
        let parent = names::space(space);
        let message =
            ListRegionsRequest { parent, page_size: PAGE_SIZE, page_token, at_revision, ..Default::default() };
        let page = daemon.regions().list_regions(request(message)).await?.into_inner();
        take(page.regions)?;
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(());
        }
    }
}
