//! Regions for measurements, made through gRPC.

use anyhow::Context;
use kent_client::{
    Client,
    proto::{CreateRegionRequest, Policy, UpdateRegionRequest},
};

/// The space that every store has, of 64 bits.
pub(crate) const SPACE: &str = "spaces/default";

/// Makes a region of 2^40 identifiers.
pub(crate) async fn create(client: &Client, region: &str) -> anyhow::Result<()> {
    let request = CreateRegionRequest {
        parent: SPACE.to_owned(),
        region_id: region.to_owned(),
        suffix_bits: 40,
        // A burst of all that there is: the pace of a region of this size would be what is measured.
        pace: 1 << 40,
        ..CreateRegionRequest::default()
    };
    client.connect().await?.regions().create_region(request).await.with_context(|| format!("{region} was not made"))?;
    Ok(())
}

/// Makes a region whose grants are durable before they are answered.
pub(crate) async fn create_strict(client: &Client, region: &str) -> anyhow::Result<()> {
    create(client, region).await?;
    let request = UpdateRegionRequest {
        name: format!("{SPACE}/regions/{region}"),
        policy: Some(Policy { strict: true, ..Policy::default() }),
        ..UpdateRegionRequest::default()
    };
    client
        .connect()
        .await?
        .regions()
        .update_region(request)
        .await
        .with_context(|| format!("{region} was not made strict"))?;
    Ok(())
}
