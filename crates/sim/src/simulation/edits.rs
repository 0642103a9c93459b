//! Random edits by operators. Each has a request ID, so that a repeated request applies the edit only once.

use kent_proto::v1::{
    AddSubregionsRequest, AutoExpand, CreateRegionRequest, DelegateRegionRequest, DeleteRegionRequest,
    DeleteSpaceRequest, EditResponse, ExpandRegionRequest, FieldMask, ImportTableRequest, NewRegion, Policy,
    RenameRegionRequest, SealRegionRequest, ShrinkRegionRequest, SplitRegionRequest, Stride, UndoEditRequest,
    UpdateRegionRequest, region::Order, regions_server::Regions,
};
use tokio::time;
use tonic::{Code, Request, Response, Status};

use super::{
    places::{Place, Places, SPACES},
    run::{REPLICAS, Run, TRIES},
    world::Dice,
};

/// An edit of one space that can be sent repeatedly.
pub(crate) struct Edit {
    pub(crate) space: String,
    pub(crate) request_id: String,
    /// The existing region that the edit changes, if any.
    pub(crate) region: Option<String>,
    /// The regions that the edit creates.
    pub(crate) made: Vec<String>,
    pub(crate) what: EditKind,
}

/// The kind and the message of an edit.
pub(crate) enum EditKind {
    Create(CreateRegionRequest),
    Expand(ExpandRegionRequest),
    Shrink(ShrinkRegionRequest),
    Split(SplitRegionRequest),
    Subdivide(AddSubregionsRequest),
    Delegate(DelegateRegionRequest),
    Seal(SealRegionRequest),
    Unseal(SealRegionRequest),
    Rename(RenameRegionRequest),
    Update(UpdateRegionRequest),
    Delete(DeleteRegionRequest),
    /// Deletes the space of a delegated region.
    Undelegate(DeleteSpaceRequest),
    /// Reverts the last edit of a region, or its deletion.
    Undo(UndoEditRequest),
    /// Imports regions that were exported from another table.
    Import(ImportTableRequest),
}

impl Edit {
    /// Returns a random edit of a random space. Only one operator may seal, so that the order of seals is known.
    pub(crate) fn choose(dice: &Dice, places: &Places, request_id: String, may_seal: bool) -> Self {
        let space = places.space(dice);
        match places.region(dice, Some(&space)).filter(|_| !dice.per_mille(250)) {
            Some(place) => Self::of(dice, places, place, request_id, may_seal),
            None => Self::create(dice, places, space, request_id),
        }
    }

    /// Returns an edit that creates a region.
    fn create(dice: &Dice, places: &Places, space: String, request_id: String) -> Self {
        let region_id = places.fresh();
        let suffix_max = if space == SPACES[0] { 20 } else { 5 };
        let order = match dice.between(0, 19) {
            0..6 => Order::Scrambled,
            6 => Order::External,
            _ => Order::Sequential,
        };
        let create = CreateRegionRequest {
            parent: format!("spaces/{space}"),
            region_id: region_id.clone(),
            suffix_bits: Some(bits(dice, 1, suffix_max)),
            zone_bits: Some(bits(dice, 0, 4)),
            auto_split: dice.per_mille(500),
            next: dice.per_mille(100).then(|| u128::from(dice.between(0, 5)).into()),
            order: order.into(),
            request_id: request_id.clone(),
            ..CreateRegionRequest::default()
        };
        Self { space, request_id, region: None, made: vec![region_id], what: EditKind::Create(create) }
    }

    /// Returns a random edit of an existing region.
    fn of(dice: &Dice, places: &Places, place: Place, request_id: String, may_seal: bool) -> Self {
        let Place { space, region } = place;
        let (name, id) = (format!("spaces/{space}/regions/{region}"), request_id.clone());
        let by_bits = bits(dice, 1, 2);
        let mut made = Vec::new();
        let what = match dice.between(0, 20) {
            0 | 1 => EditKind::Expand(ExpandRegionRequest { name, by_bits, request_id: id, ..Default::default() }),
            2 | 3 => EditKind::Shrink(ShrinkRegionRequest { name, by_bits, request_id: id, ..Default::default() }),
            4 => {
                made = if dice.per_mille(500) { vec![places.fresh()] } else { Vec::new() };
                let new_regions = made.iter().map(|name| new_region(name)).collect();
                EditKind::Split(SplitRegionRequest { name, by_bits, new_regions, request_id: id, ..Default::default() })
            }
            5..8 => {
                made = vec![places.fresh()];
                EditKind::Subdivide(subdivide(dice, name, by_bits, &made[0], id))
            }
            8 => EditKind::Delegate(DelegateRegionRequest { name, request_id: id, ..Default::default() }),
            9 if may_seal => {
                let seal = SealRegionRequest { name, request_id: id, ..Default::default() };
                if dice.per_mille(300) { EditKind::Seal(seal) } else { EditKind::Unseal(seal) }
            }
            10 => {
                let region_id = places.fresh();
                EditKind::Rename(RenameRegionRequest { name, region_id, request_id: id, ..Default::default() })
            }
            11 => {
                // Replaces the whole policy. A policy that adds suffixes needs a declaration.
                let next = dice.per_mille(500).then(|| 0.into());
                let (policy, policy_mask) = (Some(policy(dice)), Some(FieldMask { paths: vec!["*".to_owned()] }));
                EditKind::Update(UpdateRegionRequest {
                    name,
                    policy,
                    policy_mask,
                    next,
                    request_id: id,
                    ..Default::default()
                })
            }
            // Most regions that exist for a while are in use, so most of these deletions are refused.
            12..16 => EditKind::Delete(DeleteRegionRequest { name, request_id: id, ..Default::default() }),
            // An undo may revert a seal, so only the operator that seals sends undos.
            17..20 if may_seal => EditKind::Undo(UndoEditRequest { name, request_id: id, ..Default::default() }),
            16 => EditKind::Undelegate(DeleteSpaceRequest {
                name: format!("spaces/{space}/{region}"),
                ..Default::default()
            }),
            _ => {
                let next = Some(u128::from(dice.between(0, 20)).into());
                EditKind::Update(UpdateRegionRequest { name, next, request_id: id, ..Default::default() })
            }
        };
        Self { space, request_id, region: Some(region), made, what }
    }

    pub(crate) async fn send(&self, regions: &impl Regions) -> Result<EditResponse, Status> {
        let made = match &self.what {
            EditKind::Create(create) => regions.create_region(Request::new(create.clone())).await,
            EditKind::Expand(expand) => regions.expand_region(Request::new(expand.clone())).await,
            EditKind::Shrink(shrink) => regions.shrink_region(Request::new(shrink.clone())).await,
            EditKind::Split(split) => regions.split_region(Request::new(split.clone())).await,
            EditKind::Subdivide(divide) => regions.add_subregions(Request::new(divide.clone())).await,
            EditKind::Delegate(delegate) => regions.delegate_region(Request::new(delegate.clone())).await,
            EditKind::Seal(seal) => regions.seal_region(Request::new(seal.clone())).await,
            EditKind::Unseal(seal) => regions.unseal_region(Request::new(seal.clone())).await,
            EditKind::Rename(rename) => regions.rename_region(Request::new(rename.clone())).await,
            EditKind::Update(update) => regions.update_region(Request::new(update.clone())).await,
            EditKind::Delete(delete) => regions.delete_region(Request::new(delete.clone())).await,
            EditKind::Undo(undo) => regions.undo_edit(Request::new(undo.clone())).await,
            EditKind::Import(import) => regions.import_table(Request::new(import.clone())).await,
            EditKind::Undelegate(delete) => {
                let deleted = regions.delete_space(Request::new(delete.clone())).await;
                deleted.map(|_| Response::new(EditResponse::default()))
            }
        };
        made.map(Response::into_inner)
    }
}

/// Sends an edit until a daemon gives a definite answer. Returns false if the edit is refused, or if no attempt gets
/// such an answer.
pub(crate) async fn send_until_answered(run: &Run, space: &str, request_id: String, what: EditKind) -> bool {
    let edit = Edit { space: space.to_owned(), request_id, region: None, made: Vec::new(), what };
    answer(run, &edit).await.is_some_and(|answer| answer.is_ok())
}

/// Sends an edit until a daemon gives a definite answer, and records the edit. Returns `None` if no attempt gets such
/// an answer.
pub(crate) async fn answer(run: &Run, edit: &Edit) -> Option<Result<EditResponse, Status>> {
    for _ in 0..TRIES {
        if let Some(life) = run.life(run.dice.between(0, REPLICAS as u64 - 1) as usize) {
            match edit.send(&life.node.regions()).await {
                Ok(made) => {
                    if made.revision != made.base_revision {
                        run.edited(&edit.space, &edit.request_id, made.revision);
                    }
                    return Some(Ok(made));
                }
                // A daemon may not yet know the regions that another daemon has created.
                Err(status) if is_unknown(status.code()) || status.code() == Code::NotFound => {}
                Err(status) => return Some(Err(status)),
            }
        }
        time::sleep(run.dice.millis(50, 500)).await;
    }
    None
}

/// Returns whether the outcome of an edit is unknown and a retry is needed.
pub(crate) fn is_unknown(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Unknown | Code::Aborted | Code::DeadlineExceeded | Code::Cancelled)
}

/// Returns a request that adds a subregion. An extension of zeros closes the region, and any other extension makes it
/// partial.
fn subdivide(dice: &Dice, name: String, by_bits: u32, made: &str, request_id: String) -> AddSubregionsRequest {
    let closes = dice.per_mille(500);
    let extension = if closes { "0" } else { "1" }.repeat(by_bits as usize);
    let made = NewRegion { extension: Some(extension), ..new_region(made) };
    let made = if closes { NewRegion { suffix_bits: None, ..made } } else { made };
    AddSubregionsRequest {
        name,
        by_bits,
        new_regions: vec![made],
        r#abstract: closes,
        request_id,
        ..Default::default()
    }
}

fn new_region(name: &str) -> NewRegion {
    NewRegion { region_id: name.to_owned(), suffix_bits: Some(1), ..NewRegion::default() }
}

fn policy(dice: &Dice) -> Policy {
    let percent = bits(dice, 1, 100);
    match dice.between(0, 6) {
        0..3 => Policy {
            auto_expand: Some(AutoExpand { at_percent: percent, by_bits: bits(dice, 1, 2), max_suffix_bits: 0 }),
            ..Policy::default()
        },
        3 => Policy { cap: dice.between(1, 200).to_string(), ..Policy::default() },
        4 => Policy { min_chunk: 1, max_chunk: dice.between(1, 4), ..Policy::default() },
        5 => {
            let step = bits(dice, 2, 4);
            Policy { stride: Some(Stride { step, offset: bits(dice, 0, step - 1) }), ..Policy::default() }
        }
        _ => Policy::default(),
    }
}

/// Returns a random number from `low` to `high`.
fn bits(dice: &Dice, low: u32, high: u32) -> u32 {
    // OK because the number is at most `high`.
    dice.between(low.into(), high.into()) as u32
}
