//! `kent region create`, `expand`, `split`, `set` and the other commands that edit the table of a space, and their dry
//! runs.

use kent_client::Daemon;
use kent_client::tonic::{Response, Status};
use kent_proto::v1::{
    AddSubregionsRequest, AutoExpand, CreateRegionRequest, DelegateRegionRequest, DeleteRegionRequest, EditResponse,
    ExpandRegionRequest, FieldMask, NewRegion, Policy, Region, RegionChange, RenameRegionRequest, SealRegionRequest,
    ShrinkRegionRequest, SplitRegionRequest, Stride, UndoEditRequest, UpdateRegionRequest,
};
use serde_json::{Value, json};

use crate::args::{
    self, CreateArgs, DeleteArgs, EditArgs, NamedArgs, PolicyArgs, RenameArgs, ResizeArgs, SetArgs, SplitArgs,
    SubdivideArgs, UndoArgs,
};
use crate::confirm;
use crate::connect::request;
use crate::describe;
use crate::failure::Failure;
use crate::names;
use crate::notice;
use crate::number;
use crate::output::{Out, Palette, Role};
use crate::plan;
use crate::prefix::PrefixFormat;
use crate::table::{Cell, Table};

/// The value of `expected_revision` that accepts any revision.
const ANY_REVISION: u64 = 0;

/// Makes the request for an edit from its specific fields and the fields common to all edits.
macro_rules! edit_request {
    ($edit:expr, $kind:ident { $($field:ident: $value:expr),* $(,)? }) => {
        request($kind {
            $($field: $value,)*
            validate_only: $edit.dry_run,
            expected_revision: $edit.expect_revision.unwrap_or(ANY_REVISION),
            request_id: $edit.request_id.clone().unwrap_or_default(),
            reason: $edit.reason.clone(),
        })
    };
}

pub(crate) async fn create(args: &CreateArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let edit = &EditArgs { dry_run: args.edit.dry_run || args.plan, ..args.edit.clone() };
    let call = async |edit: &EditArgs| {
        let message = CreateRegionRequest {
            validate_only: edit.dry_run,
            expected_revision: edit.expect_revision.unwrap_or(ANY_REVISION),
            request_id: edit.request_id.clone().unwrap_or_default(),
            reason: edit.reason.clone(),
            ..plan::request_of(args)
        };
        daemon.regions().create_region(request(message)).await
    };
    match args.plan {
        true => match call(edit).await {
            Err(refusal) => plan::write(args, &refusal, out),
            Ok(answer) => write(&answer.into_inner(), out),
        },
        false => {
            let made = make(edit, call, out).await.map_err(|failure| ask_instead(args, failure))?;
            write(&made, out)
        }
    }
}

/// Tells a caller that may not create the region how to ask for it.
fn ask_instead(args: &CreateArgs, failure: Failure) -> Failure {
    let CreateArgs { name, suffix, .. } = args;
    match failure {
        Failure::Refused(mut refusal) if refusal.reason.as_deref() == Some("PERMISSION_DENIED") => {
            let space = names::space_option(&args.edit.space.space);
            refusal.advice.push(format!(
                "to ask an operator for the region: kent region ask {name} --suffix {suffix} --reason TEXT{space}"
            ));
            Failure::Refused(refusal)
        }
        other => other,
    }
}

/// Returns warnings about a new region whose zone or suffix is hard to change later.
fn warnings(region: &Region) -> Vec<String> {
    let (name, suffix) = (names::short(&region.name), region.suffix_bits);
    let prefix = u32::try_from(region.prefix.len()).unwrap_or(u32::MAX);
    let bits = prefix.saturating_add(region.zone_bits).saturating_add(suffix);
    let mut warnings = Vec::new();
    if bits.saturating_sub(suffix) < 3 {
        let share = ["the whole space", "half of the space", "a quarter of the space"];
        let share = share.get(bits.saturating_sub(suffix) as usize).copied().unwrap_or_default(); // OK because it is below 3
        let least = bits.saturating_sub(3);
        warnings.push(format!(
            "the suffix of {name} takes {share}; {least} bits would take an eighth, and a region can be expanded later"
        ));
    }
    if region.zone_bits == 0 {
        let capacity = number::power_of_two(&region.capacity);
        warnings.push(format!(
            "{name} has no expansion zone, so it can never be expanded beyond {capacity} identifiers, split or subdivided; --zone \
             or a shorter --prefix keeps bits for that"
        ));
    }
    warnings
}

pub(crate) async fn expand(args: &ResizeArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let edit = &args.edit;
    let message = edit_request!(edit, ExpandRegionRequest { name: region_name(edit, &args.name), by_bits: args.by });
    write(&daemon.regions().expand_region(message).await?.into_inner(), out)
}

pub(crate) async fn shrink(args: &ResizeArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let edit = &args.edit;
    let message = edit_request!(edit, ShrinkRegionRequest { name: region_name(edit, &args.name), by_bits: args.by });
    write(&daemon.regions().shrink_region(message).await?.into_inner(), out)
}

pub(crate) async fn split(args: &SplitArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let call = async |edit: &EditArgs| {
        let message = edit_request!(
            edit,
            SplitRegionRequest {
                name: region_name(edit, &args.name),
                by_bits: args.by,
                new_regions: new_regions(&args.new_regions),
            }
        );
        daemon.regions().split_region(message).await
    };
    write_divided(&make(&args.edit, call, out).await?, &args.new_regions, out)
}

/// Like [`write_with_chosen`], but also warns if another generator could issue identifiers of the new regions.
fn write_divided(response: &EditResponse, new_regions: &[args::NewRegion], out: &mut Out) -> Result<(), Failure> {
    write_with_chosen(response, new_regions, out)?;
    // The region before the edit, because a region that the edit closes has no capacity afterward.
    let before = response.changes.first().and_then(|change| change.before.as_ref());
    if let Some(warning) = before.and_then(divided_warning) {
        notice::warn(&warning, out.is_json());
    }
    Ok(())
}

/// Returns a warning about a region that leaves numbers to another generator, before other regions get a part of its zone.
fn divided_warning(region: &Region) -> Option<String> {
    region.policy.as_ref()?.stride?;
    let (name, end) = (names::short(&region.name), number::power_of_two(&region.capacity));
    Some(format!(
        "the other generator of {name} must stay below {end}: its numbers from {end} on may be identifiers of other regions"
    ))
}

pub(crate) async fn subdivide(args: &SubdivideArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let call = async |edit: &EditArgs| {
        let message = edit_request!(
            edit,
            AddSubregionsRequest {
                name: region_name(edit, &args.name),
                by_bits: args.by,
                new_regions: new_regions(&args.new_regions),
                r#abstract: args.is_abstract,
            }
        );
        daemon.regions().add_subregions(message).await
    };
    write_divided(&make(&args.edit, call, out).await?, &args.new_regions, out)
}

pub(crate) async fn delegate(args: &NamedArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let edit = &args.edit;
    let message = edit_request!(edit, DelegateRegionRequest { name: region_name(edit, &args.name) });
    write(&daemon.regions().delegate_region(message).await?.into_inner(), out)
}

pub(crate) async fn seal(args: &NamedArgs, sealed: bool, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let edit = &args.edit;
    let message = edit_request!(edit, SealRegionRequest { name: region_name(edit, &args.name) });
    let mut regions = daemon.regions();
    let response = match sealed {
        true => regions.seal_region(message).await?,
        false => regions.unseal_region(message).await?,
    };
    write(&response.into_inner(), out)
}

pub(crate) async fn delete(args: &DeleteArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let edit = &args.edit;
    let message = edit_request!(edit, DeleteRegionRequest { name: region_name(edit, &args.name), unused: args.unused });
    write(&daemon.regions().delete_region(message).await?.into_inner(), out)
}

pub(crate) async fn undo(args: &UndoArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let edit = &args.edit;
    let whole = || names::space(&edit.space.space);
    let name = args.name.as_ref().map_or_else(whole, |name| region_name(edit, name));
    let message = edit_request!(edit, UndoEditRequest { name: name });
    write(&daemon.regions().undo_edit(message).await?.into_inner(), out)
}

pub(crate) async fn rename(args: &RenameArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let edit = &args.edit;
    let message = edit_request!(
        edit,
        RenameRegionRequest { name: region_name(edit, &args.name), region_id: args.new_name.clone() }
    );
    write(&daemon.regions().rename_region(message).await?.into_inner(), out)
}

pub(crate) async fn set(args: &SetArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    if !changes_something(args) {
        let region = names::region_words(&args.name, &args.edit.space.space);
        return Err(Failure::Usage(format!(
            "nothing to set: add --owner, --description, --label, --next or a policy such as --cap, --auto-expand, --chunk, --strict, \
             --step, or --no-policy, as in `kent region set {region} --owner shop`"
        )));
    }
    let mut names: Vec<&str> = args.labels.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find_map(|pair| (pair[0] == pair[1]).then(|| pair[0])) {
        return Err(Failure::Usage(format!(
            "the label {twice:?} is given twice, but has one value: give it once, as in --label {twice}=VALUE"
        )));
    }
    let (set, removed): (Vec<_>, Vec<_>) = args.labels.iter().cloned().partition(|(_, value)| value.is_some());
    let call = async |edit: &EditArgs| {
        let message = edit_request!(
            edit,
            UpdateRegionRequest {
                name: region_name(edit, &args.name),
                owner: args.owner.clone(),
                description: args.description.clone(),
                set_labels: set.iter().cloned().map(|(name, value)| (name, value.unwrap_or_default())).collect(),
                remove_labels: removed.iter().map(|(name, _)| name.clone()).collect(),
                policy: Some(policy(&args.policy)),
                policy_mask: Some(policy_mask(&args.policy)),
                next: args.next.map(Into::into),
            }
        );
        daemon.regions().update_region(message).await
    };
    match args.next {
        Some(_) => write_set(args, &make(&args.edit, call, out).await?, out),
        None => write_set(args, &call(&args.edit).await?.into_inner(), out),
    }
}

/// Like [`write()`], but also warns about a policy that currently has no effect.
fn write_set(args: &SetArgs, response: &EditResponse, out: &mut Out) -> Result<(), Failure> {
    write(response, out)?;
    let mut warnings = response.region.as_ref().map(|region| set_warnings(&args.policy, region)).unwrap_or_default();
    // The answer to a repeated request ID has the counter of now, which may be above the declared number.
    if args.edit.request_id.is_none() {
        warnings.extend(next_warning(args.next, response));
    }
    if let Some(region) = response.region.as_ref().filter(|region| region.reserved.is_empty()) {
        let (name, space) = (names::short(&region.name), names::space_of(&region.name));
        warnings.push(format!(
            "the edit is made, but the daemon could not read the counter of {name}; read `reserved` later with `kent region show {name} \
             --space {space}`"
        ));
    }
    warnings.iter().for_each(|warning| notice::warn(&out.reaching(warning), out.is_json()));
    Ok(())
}

/// Returns a warning if the counter was above the declared number already, because the number may be a typing error. The
/// daemon refuses such a number only if the edit changes nothing else.
fn next_warning(next: Option<u128>, response: &EditResponse) -> Option<String> {
    let before = response.changes.first()?.before.as_ref()?;
    let counter: u128 = before.reserved.parse().ok()?;
    let next = next.filter(|next| *next < counter)?;
    let (name, counter, next) = (names::short(&before.name), number::grouped(counter), number::grouped(next));
    Some(format!(
        "{name} continues at {counter}, where its counter was already, and not at {next}: is no number from {next} on in use?"
    ))
}

/// Returns warnings about a policy without effect: a cap that is already reached or that the region never reaches, or
/// an automatic expansion whose maximum suffix extends beyond the zone or is the present suffix.
fn set_warnings(policy: &PolicyArgs, region: &Region) -> Vec<String> {
    let (name, space) = (names::short(&region.name), names::space_of(&region.name));
    let command = format!("kent region set {name} --space {space}");
    let mut warnings = Vec::new();
    let issued: u128 = region.issued.parse().unwrap_or_default();
    if let Some(cap) = policy.cap.filter(|cap| *cap <= issued) {
        let (issued, cap) = (number::grouped(issued.to_string()), number::grouped(cap.to_string()));
        warnings.push(format!(
            "{name} has issued {issued} already, so with a cap of {cap} it issues nothing more; `{command} --no-cap` removes the cap"
        ));
    } else if let Some(cap) =
        policy.cap.filter(|cap| region.ultimate_capacity.parse().is_ok_and(|most: u128| *cap >= most))
    {
        let (most, cap) = (number::power_of_two(&region.ultimate_capacity), number::grouped(cap.to_string()));
        warnings.push(format!(
            "{name} never has more than {most} identifiers, so a cap of {cap} limits nothing; `{command} --no-cap` removes the cap"
        ));
    }
    if let Some(step) =
        policy.step.filter(|step| region.ultimate_capacity.parse().is_ok_and(|most| u128::from(*step) > most))
    {
        let (most, step) = (number::power_of_two(&region.ultimate_capacity), number::grouped(step.to_string()));
        warnings
            .push(format!("{name} never has more than {most} identifiers, so with a step of {step} it issues none"));
    }
    if let Some((percent, by, max)) = policy.auto_expand {
        let suffix = region.suffix_bits;
        let most = suffix.saturating_add(region.zone_bits);
        if region.zone_bits == 0 {
            warnings.push(format!(
                "{name} has no expansion zone, so it never expands; `{command} --no-auto-expand` removes the policy"
            ));
        } else if max > most {
            warnings.push(format!(
                "the expansion zone of {name} allows a suffix of at most {most} bits, so the region never expands to {max}; `{command} \
                 --auto-expand {percent}:{by}:{most}` sets that maximum"
            ));
        } else if suffix > 0 && max == suffix {
            // A maximum of 0 means no limit.
            warnings.push(format!(
                "{name} has a suffix of {suffix} bits already, so it never expands; `{command} --auto-expand {percent}:{by}:{most}` lets \
                 it expand to {most} bits"
            ));
        }
    }
    warnings
}

/// Returns whether the arguments set an attribute.
fn changes_something(args: &SetArgs) -> bool {
    args.owner.is_some()
        || args.description.is_some()
        || !args.labels.is_empty()
        || args.next.is_some()
        || !policy_mask(&args.policy).paths.is_empty()
}

/// Returns the policy from the arguments. The daemon uses only the parts that are in [`policy_mask`].
fn policy(args: &PolicyArgs) -> Policy {
    let auto_expand = args.auto_expand.map(|(at_percent, by_bits, max_suffix_bits)| AutoExpand {
        at_percent,
        by_bits,
        max_suffix_bits,
    });
    let (min_chunk, max_chunk) = args.chunk.unwrap_or_default();
    let cap = args.cap.map(|cap| cap.to_string()).unwrap_or_default();
    let stride = args.step.map(|step| Stride { step, offset: args.offset });
    Policy { auto_expand, cap, min_chunk, max_chunk, strict: args.strict, stride }
}

/// Returns the parts of the policy that the arguments set or clear.
fn policy_mask(args: &PolicyArgs) -> FieldMask {
    let parts = [
        ("*", args.no_policy),
        ("auto_expand", args.auto_expand.is_some() || args.no_auto_expand),
        ("cap", args.cap.is_some() || args.no_cap),
        ("max_chunk", args.chunk.is_some() || args.no_chunk),
        ("strict", args.strict || args.no_strict),
        ("stride", args.step.is_some() || args.no_step),
    ];
    FieldMask { paths: parts.iter().filter(|(_, named)| *named).map(|(part, _)| (*part).to_owned()).collect() }
}

/// Makes an edit. Before an edit that may be permanent, asks for confirmation if a person can answer.
async fn make(
    edit: &EditArgs,
    call: impl AsyncFn(&EditArgs) -> Result<Response<EditResponse>, Status>,
    out: &Out,
) -> Result<EditResponse, Failure> {
    let mut edit = edit.clone();
    if !edit.yes && !edit.dry_run && confirm::is_possible() {
        let plan = call(&EditArgs { dry_run: true, ..edit.clone() }).await?.into_inner();
        if let Some(why) = confirm::permanence(&plan) {
            notice::write(&render(&plan, out.palette()), false);
            if !confirm::ask(&format!("{why}. Make the edit?"))? {
                return Err(Failure::NotConfirmed);
            }
            // An edit with a request ID may already have been made, at another revision.
            if edit.request_id.is_none() {
                edit.expect_revision = Some(plan.base_revision);
            }
        }
    }
    Ok(call(&edit).await?.into_inner())
}

fn region_name(edit: &EditArgs, name: &str) -> String {
    names::region(&edit.space.space, name)
}

fn new_regions(new_regions: &[args::NewRegion]) -> Vec<NewRegion> {
    let new_region = |new_region: &args::NewRegion| NewRegion {
        region_id: new_region.name.clone(),
        suffix_bits: new_region.suffix_bits,
        extension: new_region.extension.as_ref().map(ToString::to_string),
        ..NewRegion::default()
    };
    new_regions.iter().map(new_region).collect()
}

/// Prints the result of an edit, and warnings about a new region.
pub(crate) fn write(response: &EditResponse, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        out.json(&to_json(response))?;
    } else {
        out.fitted(|palette| render(response, palette))?;
    }
    let created = response.changes.iter().filter(|change| change.before.is_none());
    let created =
        created.filter_map(|change| change.after.as_ref()).filter(|after| response.region.as_ref() == Some(after));
    let warnings: Vec<String> = created.flat_map(warnings).collect();
    // Flush, so that the warnings appear after the output of the edit.
    out.flush()?;
    warnings.iter().for_each(|warning| notice::warn(&out.reaching(warning), out.is_json()));
    Ok(())
}

/// Like [`write()`], but also prints the bits that the daemon chose for new regions without BITS.
fn write_with_chosen(response: &EditResponse, new_regions: &[args::NewRegion], out: &mut Out) -> Result<(), Failure> {
    write(response, out)?;
    let chosen = chosen(response, new_regions);
    if out.is_json() || chosen.is_empty() {
        return Ok(());
    }
    out.text(&format!("chosen BITS: {}\n", chosen.join(", ")))
}

/// Returns the new regions without BITS, each with the bits that it got.
fn chosen(response: &EditResponse, new_regions: &[args::NewRegion]) -> Vec<String> {
    let before = response.changes.iter().find_map(|change| change.before.as_ref());
    let old = before.map_or(0, |before| before.prefix.len());
    let unnamed = new_regions.iter().filter(|new_region| new_region.extension.is_none());
    let found = unnamed.filter_map(|new_region| {
        let made = response.changes.iter().filter_map(|change| change.after.as_ref());
        let made = made.into_iter().find(|after| names::short(&after.name) == new_region.name)?;
        Some(format!("{} {}", new_region.name, made.prefix.get(old..)?))
    });
    found.collect()
}

/// Renders every changed region before and after the edit, the freed prefixes, and the revision.
pub(crate) fn render(response: &EditResponse, palette: Palette) -> String {
    if response.revision == response.base_revision {
        let nothing = palette.paint(Role::Warning, "nothing changed");
        let confirmation = unconfirmed(response, palette);
        let seal = response.region.as_ref().and_then(describe::covering_seal);
        let seal = seal.map(|by| format!("the region is sealed with {by}\n")).unwrap_or_default();
        let revision = response.revision;
        return format!("{nothing}: the edit was already in effect; revision {revision}\n{seal}{confirmation}");
    }
    let mut text = changes(&response.changes, palette.prefixes).render(palette);
    for change in &response.changes {
        text.push_str(&describe::steps(change, "", palette));
    }
    if !response.donor.is_empty() {
        text.push_str(&format!("split to free the prefix: {}\n", names::short(&response.donor)));
    }
    if !response.freed_prefixes.is_empty() {
        let freed: Vec<_> = response.freed_prefixes.iter().map(|prefix| palette.prefixes.text(prefix)).collect();
        text.push_str(&format!("free now: {}\n", freed.join(", ")));
    }
    if let Some(by) = response.region.as_ref().and_then(describe::covering_seal) {
        let covered = format!("nothing is granted from it, because it is sealed with {by}");
        text.push_str(&format!("{}\n", palette.paint(Role::Warning, &covered)));
    }
    text.push_str(&unconfirmed(response, palette));
    let revisions = format!("revision {} → {}", response.base_revision, response.revision);
    if response.validate_only {
        let warning = palette.paint(Role::Warning, "dry run: nothing was changed");
        text.push_str(&format!("{warning}; it would be {revisions}\n"));
    } else {
        text.push_str(&format!("{revisions}\n"));
    }
    text
}

/// Returns a line that names the replicas that have not confirmed an edit that stops grants, such as a seal, or an
/// empty string if all have confirmed it.
fn unconfirmed(response: &EditResponse, palette: Palette) -> String {
    if response.unconfirmed.is_empty() {
        return String::new();
    }
    let (replicas, within) = (response.unconfirmed.join(", "), response.effective_within_ms.div_ceil(1000));
    let pending = format!("not confirmed by {replicas} yet: takes effect everywhere within {within} s");
    format!("{}\n", palette.paint(Role::Warning, &pending))
}

fn changes(changes: &[RegionChange], prefixes: PrefixFormat) -> Table {
    let mut table = Table::new(["", "REGION", "PREFIX", ">Z", ">S", ">CAPACITY", "STATE"]);
    for RegionChange { before, after } in changes {
        let (mark, role) = match (before, after) {
            (_, None) => ("-", Role::Warning),
            (Some(_), _) => ("~", Role::Warning),
            (None, _) => ("+", Role::Good),
        };
        let Some(shown) = after.as_ref().or(before.as_ref()) else { continue };
        let cell = |show: &dyn Fn(&Region) -> String| step(before.as_ref().map(show), show(shown), role);
        table.row([
            Cell::new(role, mark),
            cell(&|region| names::short(&region.name).to_owned()),
            cell(&|region| prefixes.text(&region.prefix)),
            cell(&|region| region.zone_bits.to_string()),
            cell(&|region| region.suffix_bits.to_string()),
            cell(&|region| number::power_of_two(&region.capacity)),
            cell(&describe::state),
        ]);
    }
    table
}

/// Returns "before → after" in color if the value changed, otherwise the value alone.
fn step(before: Option<String>, after: String, role: Role) -> Cell {
    match before {
        Some(before) if before != after => Cell::new(role, format!("{before} → {after}")),
        _ => after.into(),
    }
}

fn to_json(response: &EditResponse) -> Value {
    let changes = response.changes.iter().map(|change| {
        json!({
            "before": change.before.as_ref().map(describe::to_json),
            "after": change.after.as_ref().map(describe::to_json),
        })
    });
    json!({
        "region": response.region.as_ref().map(describe::to_json),
        "changes": changes.collect::<Value>(),
        "unchanged": response.revision == response.base_revision,
        "base_revision": response.base_revision,
        "revision": response.revision,
        "dry_run": response.validate_only,
        "freed_prefixes": response.freed_prefixes,
        "unconfirmed": response.unconfirmed,
        "effective_within_ms": response.effective_within_ms,
        "donor": (!response.donor.is_empty()).then(|| names::short(&response.donor)),
    })
}

#[cfg(test)]
mod tests {
    use kent_proto::v1::region::Kind;

    use super::*;
    use crate::describe::samples::region;

    #[test]
    fn ok_a_large_suffix_and_a_missing_zone_are_warned_of() {
        for (prefix, zone, expected) in [
            ("", 0, &["the whole space; 13 bits", "beyond 2^16 identifiers"][..]),
            ("0", 0, &["half of the space; 13 bits", "beyond 2^15 identifiers"]),
            ("0", 1, &["a quarter of the space; 13 bits"]),
            ("0", 2, &[]),
            ("0101", 0, &["beyond 2^12 identifiers"]),
        ] {
            let warnings = warnings(&region("orders", "", prefix, zone, Kind::Open));
            assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
            for (message, part) in warnings.iter().zip(expected) {
                assert!(message.contains(part), "{message}");
            }
        }
    }

    #[test]
    fn ok_a_declared_number_below_the_counter_is_warned_of() {
        // A quarter of the 2^10 suffixes are issued.
        let before = Some(region("r", "", "0", 5, Kind::Open));
        let response = EditResponse {
            changes: vec![RegionChange { before, ..RegionChange::default() }],
            ..EditResponse::default()
        };
        let reserved = &response.changes[0].before.as_ref().expect("a region").reserved;
        let counter: u128 = reserved.parse().expect("a number");
        assert!(counter > 1, "{reserved}");
        assert_eq!(next_warning(None, &response), None);
        assert_eq!(next_warning(Some(counter), &response), None);
        let warning = next_warning(Some(counter - 1), &response).expect("a warning");
        assert!(warning.starts_with(&format!("r continues at {}, ", number::grouped(counter))), "{warning}");
    }

    #[test]
    fn ok_a_division_beside_another_generator_is_warned_of() {
        let plain = region("r", "", "0", 5, Kind::Partial);
        assert_eq!(divided_warning(&plain), None);
        let policy = Policy { stride: Some(Stride { step: 2, offset: 1 }), ..Policy::default() };
        let warning = divided_warning(&Region { policy: Some(policy), ..plain }).expect("a warning");
        assert!(warning.starts_with("the other generator of r must stay below 2^10: "), "{warning}");
    }

    #[test]
    fn ok_a_policy_without_effect_is_warned_of() {
        let cap = |cap| PolicyArgs { cap: Some(cap), ..PolicyArgs::default() };
        let step = |step| PolicyArgs { step: Some(step), ..PolicyArgs::default() };
        let expand = |max| PolicyArgs { auto_expand: Some((80, 2, max)), ..PolicyArgs::default() };
        for (zone, policy, expected) in [
            (5, cap(257), None),
            (5, cap((1 << 15) - 1), None),
            (5, cap(256), Some("has issued 256 already")),
            (5, cap(1 << 15), Some("never has more than 2^15 identifiers, so a cap of 32_768 limits nothing;")),
            (5, cap(u128::MAX), Some("`kent region set r --space default --no-cap`")),
            (5, step(1 << 15), None),
            (5, step((1 << 15) + 1), Some("so with a step of 32_769 it issues none")),
            (5, expand(0), None),
            (5, expand(11), None),
            (5, expand(15), None),
            (
                5,
                expand(10),
                Some("`kent region set r --space default --auto-expand 80:2:15` lets it expand to 15 bits"),
            ),
            (5, expand(16), Some("`kent region set r --space default --auto-expand 80:2:15`")),
            (0, expand(0), Some("has no expansion zone")),
            (15, expand(0), None),
        ] {
            // The suffix has 10 bits, and a quarter of the suffixes are issued. With the widest zone, the suffix has no
            // bits.
            let prefix = if zone == 0 { "000000" } else { "0" };
            let warnings = set_warnings(&policy, &region("r", "", prefix, zone, Kind::Open));
            assert_eq!(warnings.len(), usize::from(expected.is_some()), "{warnings:?}");
            for (warning, part) in warnings.iter().zip(expected) {
                assert!(warning.contains(part), "{warning}");
            }
        }
        let whole =
            Region { ultimate_capacity: "340282366920938463463374607431768211456".to_owned(), ..Region::default() };
        assert_eq!(set_warnings(&cap(u128::MAX), &whole), [""; 0], "a cap below 2^128");
    }

    fn split_response(validate_only: bool) -> EditResponse {
        let (before, after) = (region("orders", "", "0", 5, Kind::Open), region("orders", "", "000", 3, Kind::Open));
        EditResponse {
            region: Some(after.clone()),
            changes: vec![
                RegionChange { before: Some(before), after: Some(after) },
                RegionChange { before: None, after: Some(region("returns", "", "010", 5, Kind::Open)) },
            ],
            base_revision: 7,
            revision: 8,
            validate_only,
            freed_prefixes: vec!["001".to_owned(), "011".to_owned()],
            ..EditResponse::default()
        }
    }

    #[test]
    fn ok_an_edit_for_people() {
        assert_eq!(
            render(&split_response(false), Palette::PLAIN),
            "   \
   REGION   PREFIX       Z   S  CAPACITY  STATE
~  orders   0 → 000  5 → 3  10      2^10  open
+  returns  010          5   8       2^8  open
free now: 001, 011
revision 7 → 8
"
        );
    }

    #[test]
    fn ok_a_deletion_and_an_edit_without_effect_for_people() {
        let orders = region("orders", "", "0", 5, Kind::Open);
        let deleted = EditResponse {
            changes: vec![RegionChange { before: Some(orders.clone()), after: None }],
            base_revision: 7,
            revision: 8,
            freed_prefixes: vec![String::new()],
            ..EditResponse::default()
        };
        assert_eq!(
            render(&deleted, Palette::PLAIN),
            "   REGION  PREFIX  Z   S  CAPACITY  STATE\n-  orders  0       5  10      2^10  open\nfree now: (none)\nrevision 7 → 8\n"
        );
        let unchanged = EditResponse { region: Some(orders), base_revision: 7, revision: 7, ..EditResponse::default() };
        assert_eq!(render(&unchanged, Palette::PLAIN), "nothing changed: the edit was already in effect; revision 7\n");
        assert_eq!(to_json(&unchanged)["unchanged"], json!(true));
    }

    #[test]
    fn ok_the_bits_that_the_daemon_chose() {
        let new_regions: Vec<args::NewRegion> =
            ["returns:8", "old:8:11"].map(|text| text.parse().expect("valid")).into();
        assert_eq!(chosen(&split_response(false), &new_regions), ["returns 10"]);
    }

    #[test]
    fn ok_an_edit_below_a_seal_says_so() {
        let mut response = split_response(false);
        let region = response.region.as_mut().expect("there");
        region.sealed_by = names::region("default", "all");
        let text = render(&response, Palette::PLAIN);
        let line =
            "nothing is granted from it, because it is sealed with all (kent region unseal all --space default)\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn ok_a_dry_run_is_marked_as_such() {
        let text = render(&split_response(true), Palette::PLAIN);
        assert!(text.ends_with("dry run: nothing was changed; it would be revision 7 → 8\n"), "{text}");
    }

    #[test]
    fn ok_an_edit_for_programs() {
        let value = to_json(&split_response(true));
        assert_eq!(value["changes"][0]["before"]["prefix"], json!("0"));
        assert_eq!(value["changes"][0]["after"]["prefix"], json!("000"));
        assert_eq!(value["changes"][1]["before"], Value::Null);
        assert_eq!(value["dry_run"], json!(true));
        assert_eq!(value["donor"], Value::Null);
        assert_eq!(value["freed_prefixes"], json!(["001", "011"]));
        assert_eq!((&value["base_revision"], &value["revision"]), (&json!(7), &json!(8)));
    }
}
