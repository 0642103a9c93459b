//! Regions as text for people and as JSON for programs.

use kent_proto::model::{CONCEALED, stride_from};
use kent_proto::v1::{
    AutoExpand, Policy, Region, RegionChange, Stride,
    region::{Kind, Order},
};
use serde_json::{Value, json};

use crate::names;
use crate::number;
use crate::output::{Palette, Role};
use crate::prefix::PrefixFormat;
use crate::table::{Cell, Table, facts};

/// Returns a table of regions.
pub(crate) fn table(regions: &[Region], is_wide: bool, has_spaces: bool, prefixes: PrefixFormat) -> Table {
    const NARROW: [&str; 9] = ["REGION", "PREFIX", ">P", ">Z", ">S", "KIND", ">ISSUED", ">CAPACITY", ">SHARE"];
    const WIDE: [&str; 6] = ["ORDER", ">PER SECOND", "FULL IN", "OWNER", "LABELS", "DESCRIPTION"];
    let space = has_spaces.then_some("SPACE");
    let mut table = Table::new(space.into_iter().chain(NARROW).chain(WIDE.into_iter().filter(|_| is_wide)));
    for region in regions {
        let counts = region.kind() != Kind::Closed;
        let or_dash = |text: String| if counts && !text.is_empty() { text } else { "-".to_owned() };
        let mut cells: Vec<Cell> = has_spaces.then(|| names::space_of(&region.name).into()).into_iter().collect();
        cells.extend([
            Cell::from(names::short(&region.name)),
            prefixes.text(&region.prefix).into(),
            region.prefix.len().into(),
            region.zone_bits.into(),
            region.suffix_bits.into(),
            Cell::new(kind_role(region.kind()), state(region)),
            or_dash(number::grouped(&region.issued)).into(),
            or_dash(number::power_of_two(&region.capacity)).into(),
            or_dash(number::share(&region.issued, &region.capacity).map(number::percent).unwrap_or_default()).into(),
        ]);
        if is_wide {
            let labels: Vec<_> = region.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            cells.extend([
                or_dash(order_name(region.order()).to_owned()).into(),
                or_dash(format!("{:.1}", region.rate)).into(),
                or_dash(region.full_in_seconds.map(duration).unwrap_or_default()).into(),
                text_or_dash(&region.owner).into(),
                text_or_dash(&labels.join(",")).into(),
                text_or_dash(&region.description).into(),
            ]);
        }
        table.push(cells);
    }
    table
}

fn text_or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.replace(char::is_control, " ") }
}

/// Returns everything about one region as text.
pub(crate) fn one(region: &Region, palette: Palette) -> String {
    let mut rows = vec![
        ("region", palette.paint(Role::Heading, names::short(&region.name))),
        ("name", region.name.clone()),
        ("number", region.number.to_string()),
        ("kind", kind_text(region)),
        ("order", order_name(region.order()).to_owned()),
        ("parent", if region.parent.is_empty() { "none".to_owned() } else { names::short(&region.parent).to_owned() }),
        (
            "prefix",
            format!("{} ({})", palette.prefixes.text(&region.prefix), number::counted(region.prefix.len(), "bit")),
        ),
    ];
    if region.kind() != Kind::Closed {
        rows.extend(numbers(region, palette));
    }
    if region.rate > 0.0 && region.kind() != Kind::Closed {
        rows.push(("rate", format!("{:.1} per second over the last minutes", region.rate)));
    }
    rows.extend(region.full_in_seconds.map(|seconds| {
        let when = if seconds <= 0.0 { "now".to_owned() } else { format!("in {}", duration(seconds)) };
        ("full", when)
    }));
    rows.extend(attributes(region));
    rows.extend(covering_seal(region).map(|by| ("sealed with", by)));
    rows.extend(region.former_prefixes.iter().map(|former| {
        let held = format!("revisions {} to {}", former.from_revision, former.to_revision);
        ("former prefix", format!("{} ({held})", palette.prefixes.text(&former.prefix)))
    }));
    facts(&rows, palette)
}

/// Returns the attributes of a region that are set: seal, delegation, policies, owner, description and labels.
pub(crate) fn attributes(region: &Region) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if region.sealed {
        rows.push((
            "sealed",
            "nothing is granted from the region or anything inside it until it is unsealed".to_owned(),
        ));
    }
    if !region.delegated_space.is_empty() {
        rows.push(("delegated", format!("its suffixes form {}", region.delegated_space)));
    }
    if let Some(policy) = &region.policy {
        rows.extend(policy.auto_expand.map(|auto| {
            let limit = if auto.max_suffix_bits >= 128 {
                String::new()
            } else {
                format!(", up to a suffix of {}", number::counted(auto.max_suffix_bits, "bit"))
            };
            ("auto-expand", format!("by {} at {} %{limit}", number::counted(auto.by_bits, "bit"), auto.at_percent))
        }));
        if !policy.cap.is_empty() {
            rows.push(("cap", number::grouped(&policy.cap)));
        }
        rows.extend(policy.stride.map(|stride| {
            let stride = stride_from(stride).map(|stride| stride.to_string());
            ("step", stride.unwrap_or_else(|| "of a kind that this program does not know".to_owned()))
        }));
        if policy.strict {
            rows.push(("strict", "no gaps; a request_id is granted once".to_owned()));
        } else if policy.max_chunk != 0 {
            let grouped = |number: u64| number::grouped(number);
            rows.push(("chunk", format!("{} to {}", grouped(policy.min_chunk), grouped(policy.max_chunk))));
        }
    }
    for (what, text) in [("owner", &region.owner), ("description", &region.description)] {
        if !text.is_empty() {
            rows.push((what, text.clone()));
        }
    }
    rows.extend(region.labels.iter().map(|(name, value)| ("label", format!("{name}={value}"))));
    rows
}

/// Returns one line for each attribute that a change removes (`-`) or adds (`+`), with its value. Each line begins with
/// `indent`.
pub(crate) fn steps(change: &RegionChange, indent: &str, palette: Palette) -> String {
    let Some(after) = &change.after else { return String::new() };
    let mut rows = [change.before.as_ref().map(attributes).unwrap_or_default(), attributes(after)];
    if change.before.is_none() {
        let order = after.order();
        let is_usual = matches!(order, Order::Sequential | Order::Unspecified);
        rows[1].extend((!is_usual).then(|| ("order", order_name(order).to_owned())));
    }
    let issued = |region: &Region| match region.kind() {
        Kind::Closed => String::new(),
        _ => number::grouped(&region.reserved),
    };
    let sides = [change.before.as_ref().map(issued).unwrap_or_default(), issued(after)];
    // A closed region has no counter, and the history does not record counters.
    if sides.iter().all(|side| !side.is_empty()) && sides[0] != sides[1] {
        let sides = rows.iter_mut().zip(sides);
        sides.for_each(|(rows, side)| rows.push(("counted as issued", side)));
    }
    let [before, after] = rows;
    let lines = |mark, role, rows: &[(&str, String)], others: &[(&str, String)]| {
        let new = rows.iter().filter(|row| !others.contains(row));
        let lines = new.map(|(what, value)| format!("{indent}{}  {what}: {value}\n", palette.paint(role, mark)));
        lines.collect::<String>()
    };
    lines("-", Role::Warning, &before, &after) + &lines("+", Role::Good, &after, &before)
}

/// Describes the seal of another region that covers this one, with the command that lifts the seal, unless the caller
/// may not read the sealed region.
pub(crate) fn covering_seal(region: &Region) -> Option<String> {
    let by = &region.sealed_by;
    let covers = !by.is_empty() && *by != region.name;
    covers.then(|| match by.as_str() {
        CONCEALED => "a region that you may not read".to_owned(),
        by => format!("{} (kent region unseal {})", names::short(by), names::words(by)),
    })
}

/// Formats a forecast in the largest unit that fits into it at least twice.
pub(crate) fn duration(seconds: f64) -> String {
    const UNITS: [(&str, f64); 5] =
        [("year", 31_557_600.0), ("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0)];
    let fits = UNITS.into_iter().find(|(_, unit)| seconds >= 2.0 * unit).unwrap_or(("second", 1.0));
    match seconds / fits.1 {
        many if many >= 1e6 => format!("{many:.0e} {}s", fits.0),
        many => number::counted(format!("{many:.0}"), fits.0),
    }
}

pub(crate) fn order_name(order: Order) -> &'static str {
    match order {
        Order::Sequential | Order::Unspecified => "sequential",
        Order::Scrambled => "scrambled",
        Order::External => "external",
    }
}

/// Returns a region's kind, followed by "sealed" and "delegated" if they apply.
pub(crate) fn state(region: &Region) -> String {
    let mut state = kind_name(region.kind()).to_owned();
    if region.sealed {
        state.push_str(", sealed");
    } else if region.sealed_by == CONCEALED {
        state.push_str(", sealed with an outer region");
    } else if !region.sealed_by.is_empty() {
        state.push_str(&format!(", sealed with {}", names::short(&region.sealed_by)));
    }
    if !region.delegated_space.is_empty() {
        state.push_str(", delegated");
    }
    state
}

/// Returns the rows that only regions with a counter have: widths, layout, identifiers and counts.
fn numbers(region: &Region, palette: Palette) -> Vec<(&'static str, String)> {
    let share = number::share(&region.issued, &region.capacity).map(number::percent).unwrap_or_default();
    let count = |decimal: &str| match (number::grouped(decimal), number::power_of_two(decimal)) {
        (digits, power) if power == digits => digits,
        (digits, power) => format!("{digits} ({power})"),
    };
    let mut rows = vec![
        ("zone", number::counted(region.zone_bits, "bit")),
        ("suffix", number::counted(region.suffix_bits, "bit")),
        ("layout", layout(region, palette)),
    ];
    if let Some((first, last)) = ends(region) {
        rows.push(("identifiers", format!("{first} to {last}")));
    }
    rows.extend([
        ("issued", format!("{} ({share})", number::grouped(&region.issued))),
        ("reserved", number::grouped(&region.reserved)),
        ("capacity", count(&region.capacity)),
        ("ultimate capacity", count(&region.ultimate_capacity)),
        ("pace", format!("{} per second", count(&region.pace.to_string()))),
    ]);
    rows
}

/// Draws one character per bit: the prefix, the zeros of the zone, and `s` for the suffix.
fn layout(region: &Region, palette: Palette) -> String {
    let zone = "0".repeat(small(region.zone_bits));
    let suffix = "s".repeat(small(region.suffix_bits));
    let parts = [(Role::Part(0), region.prefix.as_str()), (Role::Faint, &zone), (Role::Part(1), &suffix)];
    let drawn: Vec<_> =
        parts.iter().filter(|(_, part)| !part.is_empty()).map(|&(role, part)| palette.paint(role, part)).collect();
    drawn.join(" ")
}

/// Returns a width from the daemon, limited to the 128 bits of the widest identifier.
fn small(width: u32) -> usize {
    width.min(128) as usize // OK because it is at most 128
}

/// Returns the first and the last identifier at the current capacity.
fn ends(region: &Region) -> Option<(u128, u128)> {
    let prefix = if region.prefix.is_empty() { 0 } else { u128::from_str_radix(&region.prefix, 2).ok()? };
    let below = region.zone_bits.checked_add(region.suffix_bits)?;
    let first = if below >= 128 { 0 } else { prefix << below };
    let last = if region.suffix_bits >= 128 { u128::MAX } else { first | ((1 << region.suffix_bits) - 1) };
    Some((first, last))
}

fn kind_text(region: &Region) -> String {
    let below = number::counted(region.subregion_bits, "bit");
    match region.kind() {
        Kind::Partial => format!(
            "partial: has subregions, whose prefixes are {below} longer; issues its own identifiers under the all-zero extension"
        ),
        Kind::Closed => format!("closed: replaced by its subregions, whose prefixes are {below} longer"),
        kind => kind_name(kind).to_owned(),
    }
}

pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Open => "open",
        Kind::Partial => "partial",
        Kind::Closed => "closed",
        Kind::Unspecified => "unknown",
    }
}

pub(crate) fn kind_role(kind: Kind) -> Role {
    match kind {
        Kind::Open | Kind::Unspecified => Role::Plain,
        Kind::Partial => Role::Warning,
        Kind::Closed => Role::Faint,
    }
}

/// Converts a region to JSON. Region numbers and revisions grow by one and never reach 2^53, so they are JSON numbers.
/// Counts of identifiers are strings.
pub(crate) fn to_json(region: &Region) -> Value {
    json!({
        "name": names::short(&region.name),
        "resource": region.name,
        "number": region.number,
        "prefix": region.prefix,
        "prefix_bits": region.prefix.len(),
        "zone_bits": region.zone_bits,
        "suffix_bits": region.suffix_bits,
        "kind": kind_name(region.kind()),
        "subregion_bits": region.subregion_bits,
        "parent": (!region.parent.is_empty()).then(|| names::short(&region.parent)),
        "issued": region.issued,
        "reserved": region.reserved,
        "capacity": region.capacity,
        "ultimate_capacity": region.ultimate_capacity,
        "share": number::share(&region.issued, &region.capacity),
        "order": order_name(region.order()),
        "pace": region.pace.to_string(),
        "sealed": region.sealed,
        "sealed_by": (!region.sealed_by.is_empty()).then_some(&region.sealed_by),
        "delegated_space": (!region.delegated_space.is_empty()).then_some(&region.delegated_space),
        "policy": region.policy.as_ref().map(policy_json),
        "owner": region.owner,
        "description": region.description,
        "labels": region.labels,
        "rate": region.rate,
        "full_in_seconds": region.full_in_seconds,
        "former_prefixes": region.former_prefixes.iter().map(|former| json!({
            "prefix": former.prefix,
            "from_revision": former.from_revision,
            "to_revision": former.to_revision,
        })).collect::<Value>(),
    })
}

fn policy_json(policy: &Policy) -> Value {
    let auto = |auto: &AutoExpand| json!({"at_percent": auto.at_percent, "by_bits": auto.by_bits, "max_suffix_bits": auto.max_suffix_bits});
    json!({
        "auto_expand": policy.auto_expand.as_ref().map(auto),
        "cap": (!policy.cap.is_empty()).then_some(&policy.cap),
        "min_chunk": policy.min_chunk.to_string(),
        "max_chunk": policy.max_chunk.to_string(),
        "strict": policy.strict,
        "stride": policy.stride.map(|Stride { step, offset }| json!({"step": step, "offset": offset})),
    })
}

/// Sample regions for the tests of several modules.
#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// Returns a region of 16-bit identifiers with a quarter of them issued.
    pub(crate) fn region(name: &str, parent: &str, prefix: &str, zone_bits: u32, kind: Kind) -> Region {
        let closed = kind == Kind::Closed;
        let suffix_bits = if closed { 0 } else { 16 - zone_bits - u32::try_from(prefix.len()).expect("short") };
        let capacity = if closed { 0 } else { 1_u64 << suffix_bits };
        Region {
            name: names::region("default", name),
            number: 1,
            prefix: prefix.to_owned(),
            zone_bits: if closed { 0 } else { zone_bits },
            suffix_bits,
            kind: kind.into(),
            subregion_bits: u32::from(kind != Kind::Open),
            parent: if parent.is_empty() { String::new() } else { names::region("default", parent) },
            issued: (capacity / 4).to_string(),
            capacity: capacity.to_string(),
            ultimate_capacity: (capacity << zone_bits).to_string(),
            pace: 1 << 20,
            former_prefixes: Vec::new(),
            reserved: (capacity / 2).to_string(),
            ..Region::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use kent_proto::v1::FormerPrefix;

    use super::samples::region;
    use super::*;

    #[test]
    fn ok_a_list_for_people() {
        let regions = [
            region("orders", "", "0", 5, Kind::Open),
            region("all", "", "1", 0, Kind::Closed),
            region("some", "all", "10", 2, Kind::Partial),
        ];
        assert_eq!(
            table(&regions, false, false, PrefixFormat::Bits).render(Palette::PLAIN),
            "\
REGION  PREFIX  P  Z   S  KIND     ISSUED  CAPACITY    SHARE
orders  0       1  5  10  open        256      2^10  25.00 %
all     1       1  0   0  closed        -         -        -
some    10      2  2  12  partial   1_024      2^12  25.00 %
"
        );
        let [mut orders, all, _] = regions;
        orders.owner = "shop".to_owned();
        orders.labels = [("team", "a"), ("tier", "1")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        (orders.rate, orders.full_in_seconds) = (2.5, Some(7200.0));
        assert_eq!(
            table(&[orders, all], true, false, PrefixFormat::Hex).render(Palette::PLAIN),
            "\
REGION  PREFIX  P  Z   S  KIND    ISSUED  CAPACITY    SHARE  ORDER       PER SECOND  FULL IN  OWNER  LABELS         DESCRIPTION
orders  0x0/1   1  5  10  open       256      2^10  25.00 %  sequential         2.5  2 hours  shop   team=a,tier=1  -
all     0x8/1   1  0   0  closed       -         -        -  -                    -  -        -      -              -
"
        );
    }

    #[test]
    fn ok_a_region_for_people() {
        let mut orders = region("orders", "", "0101", 4, Kind::Open);
        orders.former_prefixes =
            vec![FormerPrefix { prefix: "01".to_owned(), from_revision: 1, to_revision: 4, ..FormerPrefix::default() }];
        assert_eq!(
            one(&orders, Palette::PLAIN),
            "\
region             orders
name               spaces/default/regions/orders
number             1
kind               open
order              sequential
parent             none
prefix             0101 (4 bits)
zone               4 bits
suffix             8 bits
layout             0101 0000 ssssssss
identifiers        20480 to 20735
issued             64 (25.00 %)
reserved           128
capacity           256 (2^8)
ultimate capacity  4_096 (2^12)
pace               1_048_576 (2^20) per second
former prefix      01 (revisions 1 to 4)
"
        );
    }

    #[test]
    fn ok_a_closed_region_has_no_rate_and_no_forecast() {
        let closed = Region { rate: 12.0, ..region("orders", "", "0101", 4, Kind::Closed) };
        let text = one(&closed, Palette::PLAIN);
        assert!(!text.contains("rate") && !text.contains("full"), "{text}");
    }

    #[test]
    fn ok_a_covering_seal_is_shown_with_the_command_that_lifts_it() {
        let orders = || region("orders", "", "0101", 4, Kind::Open);
        let sealed_by = names::region("parts/emea", "eu");
        let covered = Region { sealed_by, ..orders() };
        assert_eq!(state(&covered), "open, sealed with eu");
        let text = one(&covered, Palette::PLAIN);
        assert!(text.contains("sealed with        eu (kent region unseal eu --space parts/emea)\n"), "{text}");
        let concealed = Region { sealed_by: CONCEALED.to_owned(), ..orders() };
        assert_eq!(state(&concealed), "open, sealed with an outer region");
        assert_eq!(covering_seal(&concealed).as_deref(), Some("a region that you may not read"));
        let own = Region { sealed: true, sealed_by: names::region("default", "orders"), ..orders() };
        assert_eq!((state(&own), covering_seal(&own)), ("open, sealed".to_owned(), None));
    }

    #[test]
    fn ok_the_ends_of_the_widest_regions() {
        let mut whole = region("whole", "", "", 0, Kind::Open);
        whole.suffix_bits = 128;
        assert_eq!(ends(&whole), Some((0, u128::MAX)));
        (whole.zone_bits, whole.suffix_bits) = (128, 0);
        assert_eq!(ends(&whole), Some((0, 0)));
        whole.prefix = "1".repeat(128);
        (whole.zone_bits, whole.suffix_bits) = (0, 0);
        assert_eq!(ends(&whole), Some((u128::MAX, u128::MAX)));
    }

    #[test]
    fn ok_a_region_for_programs() {
        assert_eq!(
            to_json(&region("eu", "orders", "01", 4, Kind::Open)),
            json!({
                "name": "eu",
                "resource": "spaces/default/regions/eu",
                "number": 1,
                "prefix": "01",
                "prefix_bits": 2,
                "zone_bits": 4,
                "suffix_bits": 10,
                "kind": "open",
                "subregion_bits": 0,
                "parent": "orders",
                "issued": "256",
                "reserved": "512",
                "capacity": "1024",
                "ultimate_capacity": "16384",
                "share": 0.25,
                "former_prefixes": [],
                "order": "sequential",
                "pace": "1048576",
                "sealed": false,
                "sealed_by": null,
                "delegated_space": null,
                "policy": null,
                "owner": "",
                "description": "",
                "labels": {},
                "rate": 0.0,
                "full_in_seconds": null,
            })
        );
    }
}
