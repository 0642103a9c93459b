//! Sets of rights, compiled so that a decision needs few comparisons and no allocation.

use alloc::{
    borrow::ToOwned,
    string::{String, ToString},
    vec::Vec,
};
use core::cmp::Ordering;

use kent_ids::{Format, Series};

use crate::{
    action::Action,
    permission::{FULL_RAND, Resource},
    right::{Bound, Right},
};

/// What a caller may do.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    rights: Vec<Right>,
    scopes: [Scope; Action::ALL.len()],
}

/// What a call concerns.
#[derive(Clone, Copy, Debug)]
pub enum Target<'t> {
    /// The daemon as a whole.
    Daemon,
    /// Identifiers of a format.
    Format(Format),
    /// Identifiers of a series.
    Series(&'t Series),
    /// The custom layout with this name.
    Layout(&'t str),
    /// At least one custom layout: a right on any layout, or on names of layouts, is enough. There may be no layouts yet.
    SomeLayout,
    /// A space itself: its creation and deletion.
    Space {
        /// The key of the space, or its name if there is no such space.
        key: &'t str,
    },
    /// At least one region of a space: a right on any region of the space, or on names of regions in it, is enough. The
    /// space may have no regions yet.
    Some {
        /// The key of the space, or its name if there is no such space.
        space: &'t str,
    },
    /// The whole table of a space.
    Table {
        /// The key of the space, or its name if there is no such space.
        space: &'t str,
    },
    /// A region.
    Region {
        /// The key of the space, or its name if there is no such space.
        space: &'t str,
        /// The number of the region, or `None` if the region does not exist.
        number: Option<u64>,
        /// The name with which the region was or would be created.
        first_name: &'t str,
    },
}

/// The resources on which one action is allowed.
#[derive(Clone, Debug, Default)]
struct Scope {
    everything: bool,
    /// Whether the scope includes the series [`FULL_RAND`], by name or by a pattern.
    full_rand: bool,
    formats: Vec<&'static str>,
    format_prefixes: Vec<String>,
    serials: Vec<Series>,
    serial_prefixes: Vec<String>,
    layouts: Vec<String>,
    layout_prefixes: Vec<String>,
    all_regions: bool,
    space_prefixes: Vec<String>,
    /// Sorted by key, in the order of [`by_length`].
    spaces: Vec<(String, InSpace)>,
    /// The number of each region that a right names, and the key of its space, which is also in `spaces`. The list is
    /// sorted by number, so most grants find their region with one string comparison.
    regions: Vec<(u64, String)>,
}

/// The resources of one space on which one action is allowed.
#[derive(Clone, Debug, Default)]
struct InSpace {
    /// Whether the space itself and all its regions are included.
    whole: bool,
    /// Prefixes of the names with which the included regions were created.
    prefixes: Vec<String>,
}

/// Lists of up to this many regions are searched linearly, longer lists by binary search.
const SCANNED_MAX: usize = 4;

impl Rights {
    /// Compiles rights.
    pub fn new(rights: Vec<Right>) -> Self {
        let mut made = Self { rights: Vec::new(), scopes: Default::default() };
        for right in &rights {
            match right.permission().action() {
                // `admin` includes all actions.
                Action::Admin => made.scopes.iter_mut().for_each(|scope| scope.add(right)),
                action => made.scopes[action as usize].add(right),
            }
        }
        made.rights = rights;
        made
    }

    /// The rights from which this set was compiled.
    pub fn rights(&self) -> &[Right] {
        &self.rights
    }

    /// Whether these rights allow an action. Always inlined, so that the scope of a constant `action` is found at
    /// compile time.
    #[inline(always)]
    pub fn may(&self, action: Action, target: Target<'_>) -> bool {
        let scope = &self.scopes[action as usize];
        scope.everything
            || match target {
                Target::Series(Series::FullRand) => scope.full_rand,
                // This separate arm saves callers from storing the whole target in memory.
                Target::Series(series) => scope.has_serial(series),
                Target::Region { space, number: Some(number), .. } if scope.has_region(space, number) => true,
                target => scope.includes(target),
            }
    }

    /// Whether the holder may give this right to others. This requires `admin` over the whole resource of the right.
    pub fn covers(&self, right: &Right) -> bool {
        self.scopes[Action::Admin as usize].covers(right)
    }
}

impl Scope {
    fn add(&mut self, right: &Right) {
        match (right.permission().resource(), right.bound()) {
            (Resource::Everything, _) => self.everything = true,
            (Resource::Format(token), _) => {
                self.formats.push(token);
                self.full_rand |= *token == FULL_RAND;
            }
            (Resource::Formats(prefix), _) => {
                self.format_prefixes.push(prefix.clone());
                self.full_rand |= FULL_RAND.starts_with(prefix.as_str());
            }
            (Resource::Serial(series), _) => self.serials.push(series.clone()),
            (Resource::Serials(prefix), _) => self.serial_prefixes.push(prefix.clone()),
            (Resource::Layout(name), _) => self.layouts.push(name.clone()),
            (Resource::Layouts(prefix), _) => self.layout_prefixes.push(prefix.clone()),
            (Resource::AllRegions, _) => self.all_regions = true,
            (Resource::Spaces(prefix), _) => self.space_prefixes.push(prefix.clone()),
            (Resource::Space(_), Bound::Space(key)) => self.space(key).whole = true,
            (Resource::Regions { prefix, .. }, Bound::Space(key)) => self.space(key).prefixes.push(prefix.clone()),
            (Resource::Region { .. }, Bound::Region(place)) => {
                self.space(&place.space);
                if !self.has_region(&place.space, place.number) {
                    let at = self.regions.partition_point(|(other, _)| *other < place.number);
                    self.regions.insert(at, (place.number, place.space.clone()));
                }
            }
            // OK because a right is always bound to what it names. A right that is not bound allows nothing.
            (Resource::Space(_) | Resource::Regions { .. } | Resource::Region { .. }, _) => {}
        }
    }

    fn space(&mut self, key: &str) -> &mut InSpace {
        let at = match self.find(key) {
            Ok(at) => at,
            Err(at) => {
                self.spaces.insert(at, (key.to_owned(), InSpace::default()));
                at
            }
        };
        &mut self.spaces[at].1
    }

    /// The position of the space with this key, or the position at which to insert it.
    fn find(&self, key: &str) -> Result<usize, usize> {
        self.spaces.binary_search_by(|(other, _)| by_length(other, key))
    }

    fn in_space(&self, key: &str) -> Option<&InSpace> {
        Some(&self.spaces[self.find(key).ok()?].1)
    }

    fn includes(&self, target: Target<'_>) -> bool {
        self.everything
            || match target {
                Target::Daemon => false,
                Target::Format(format) => self.has_format(format.token()),
                Target::Series(Series::FullRand) => self.full_rand,
                Target::Series(series) => self.has_serial(series),
                Target::Layout(name) => self.has_layout(name),
                Target::SomeLayout => !self.layouts.is_empty() || !self.layout_prefixes.is_empty(),
                Target::Space { key } => self.has_space(key),
                Target::Some { space } => self.all_regions || self.has_space_prefix(space) || self.find(space).is_ok(),
                Target::Table { space } => self.has_regions(space, ""),
                Target::Region { space, number, first_name } => {
                    number.is_some_and(|number| self.has_region(space, number))
                        || self.has_first_name(space, first_name)
                }
            }
    }

    /// Whether the scope includes any region that was or will be created with this name.
    fn has_first_name(&self, space: &str, first_name: &str) -> bool {
        self.all_regions
            || self.has_space_prefix(space)
            || self.in_space(space).is_some_and(|it| it.includes(first_name))
    }

    /// Whether the scope lists this region by its number.
    #[inline(always)]
    fn has_region(&self, space: &str, number: u64) -> bool {
        // A binary search is faster only in a long list.
        let regions = match self.regions.len() {
            0..=SCANNED_MAX => &self.regions,
            _ => self.regions_from(number),
        };
        for (other, key) in regions {
            if *other > number {
                return false;
            }
            if *other == number && key == space {
                return true;
            }
        }
        false
    }

    /// The regions that are listed by this number or a greater one.
    #[inline(never)]
    fn regions_from(&self, number: u64) -> &[(u64, String)] {
        &self.regions[self.regions.partition_point(|(other, _)| *other < number)..]
    }

    fn has_format(&self, token: &str) -> bool {
        self.formats.contains(&token) || self.format_prefixes.iter().any(|prefix| token.starts_with(prefix.as_str()))
    }

    fn has_serial(&self, series: &Series) -> bool {
        let Series::Serial(serials) = series else { return false };
        self.serials.contains(series)
            || self.serial_prefixes.iter().any(|prefix| serials.name().starts_with(prefix.as_str()))
    }

    fn has_layout(&self, name: &str) -> bool {
        self.layouts.iter().any(|layout| layout == name)
            || self.layout_prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }

    fn has_space(&self, key: &str) -> bool {
        self.has_space_prefix(key) || self.in_space(key).is_some_and(|it| it.whole)
    }

    fn has_space_prefix(&self, key: &str) -> bool {
        self.space_prefixes.iter().any(|prefix| outermost(key).starts_with(prefix.as_str()))
    }

    /// Whether the scope includes all regions that were or will be created with a name that begins with `prefix`.
    fn has_regions(&self, space: &str, prefix: &str) -> bool {
        let is_within = |wide: &String| prefix.starts_with(wide.as_str());
        self.all_regions
            || self.has_space_prefix(space)
            || self.in_space(space).is_some_and(|it| it.whole || it.prefixes.iter().any(is_within))
    }

    /// Whether these resources include the whole resource of a right.
    fn covers(&self, right: &Right) -> bool {
        self.everything
            || match (right.permission().resource(), right.bound()) {
                (Resource::Everything, _) => false,
                (Resource::Format(token), _) => self.has_format(token),
                // A later version may add formats, so only a pattern covers a pattern.
                (Resource::Formats(prefix), _) => is_within_one(prefix, &self.format_prefixes),
                (Resource::Serial(series), _) => self.has_serial(series),
                (Resource::Serials(prefix), _) => is_within_one(prefix, &self.serial_prefixes),
                (Resource::Layout(name), _) => self.has_layout(name),
                (Resource::Layouts(prefix), _) => is_within_one(prefix, &self.layout_prefixes),
                // `space:*` includes every space.
                (Resource::AllRegions, _) => self.all_regions || self.space_prefixes.iter().any(String::is_empty),
                (Resource::Spaces(prefix), _) => is_within_one(prefix, &self.space_prefixes),
                (Resource::Space(_), Bound::Space(key)) => self.has_space(key),
                (Resource::Regions { prefix, .. }, Bound::Space(key)) => self.has_regions(key, prefix),
                (Resource::Region { .. }, Bound::Region(place)) => self.includes(Target::Region {
                    space: &place.space,
                    number: Some(place.number),
                    first_name: &place.first_name,
                }),
                (Resource::Space(_) | Resource::Regions { .. } | Resource::Region { .. }, _) => false,
            }
    }
}

impl InSpace {
    fn includes(&self, first_name: &str) -> bool {
        self.whole || self.prefixes.iter().any(|prefix| first_name.starts_with(prefix.as_str()))
    }
}

impl Target<'_> {
    /// The resource as a permission would name it, for error messages. `space` and `region` are the names that the
    /// caller used, because the caller may not be allowed to know others.
    pub fn describe(&self, space: &str, region: &str) -> String {
        match self {
            Self::Daemon => "*".to_owned(),
            Self::Format(format) => format.token().to_owned(),
            Self::Series(series) => series.to_string(),
            Self::Layout(name) => Resource::Layout((*name).to_owned()).to_string(),
            Self::SomeLayout => Resource::Layouts(String::new()).to_string(),
            Self::Space { .. } => Resource::Space(space.to_owned()).to_string(),
            Self::Some { .. } | Self::Table { .. } => {
                Resource::Regions { space: space.to_owned(), prefix: String::new() }.to_string()
            }
            Self::Region { .. } => Resource::Region { space: space.to_owned(), name: region.to_owned() }.to_string(),
        }
    }
}

/// The name of the outermost space, from the key of a space or from its name. The name of an outermost space never
/// changes.
fn outermost(key: &str) -> &str {
    key.split(['~', '/']).next().unwrap_or_default()
}

/// Orders strings by length first, which costs less than comparing their bytes.
fn by_length(one: &str, other: &str) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

fn is_within_one(prefix: &str, wide: &[String]) -> bool {
    wide.iter().any(|wide| prefix.starts_with(wide.as_str()))
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use proptest::prelude::*;

    use super::*;
    use crate::{permission::Needs, right::Place};

    /// Regions by their current names: the space's key, the number, and the name with which they were created.
    const REGIONS: [(&str, &str, u64, &str); 5] = [
        ("default/orders", "default", 1, "orders"),
        ("default/team-a-1", "default", 2, "team-a-1"),
        // This region was renamed.
        ("default/moved", "default", 3, "team-a-2"),
        ("default/team-a-9", "default", 4, "secret"),
        ("default/orders/eu", "default~0000000000000001", 1, "eu"),
    ];

    fn key(space: &str) -> String {
        if space == "default/orders" { "default~0000000000000001".to_owned() } else { space.to_owned() }
    }

    fn right(text: &str) -> Right {
        let permission: crate::Permission = text.parse().expect(text);
        let bound = match permission.needs() {
            Needs::Nothing => Bound::Nothing,
            Needs::Space(space) => Bound::Space(key(space)),
            Needs::Region { space, name } => {
                let path = format!("{space}/{name}");
                let (_, space, number, first) = REGIONS.iter().find(|it| it.0 == path).expect("a region");
                Bound::Region(Place { space: (*space).to_owned(), number: *number, first_name: (*first).to_owned() })
            }
        };
        Right::new(permission, bound).expect("bound")
    }

    fn rights(texts: &[&str]) -> Rights {
        Rights::new(texts.iter().map(|text| right(text)).collect())
    }

    /// Whether the rights allow a permission's action on its resource.
    fn may(rights: &Rights, text: &str) -> bool {
        let (action, resource) = text.split_once(':').expect("an action");
        let action = action.parse().expect("an action");
        let series: Series;
        let target = match resource.split_once(':') {
            _ if resource == "daemon" => Target::Daemon,
            Some(("serial", _)) => {
                series = resource.parse().expect("a series");
                Target::Series(&series)
            }
            None if resource == FULL_RAND => Target::Series(&Series::FullRand),
            Some(("layout", name)) => Target::Layout(name),
            None => Target::Format(Format::by_token(resource).expect("a format")),
            Some(("space", space)) => return rights.may(action, Target::Space { key: &key(space) }),
            Some(("table", space)) => return rights.may(action, Target::Table { space: &key(space) }),
            Some((_, path)) => match REGIONS.iter().find(|it| it.0 == path) {
                Some((_, space, number, first_name)) => Target::Region { space, number: Some(*number), first_name },
                None => {
                    let (space, first_name) = path.rsplit_once('/').expect("a path");
                    return rights.may(action, Target::Region { space: &key(space), number: None, first_name });
                }
            },
        };
        rights.may(action, target)
    }

    #[test]
    fn ok_rights_allow_what_they_name_and_nothing_else() {
        let all = [
            "allocate:uuidv7",
            "allocate:uuidv6",
            "allocate:uid11-fullrand",
            "allocate:serial:GBP",
            "allocate:serial:GB",
            "lease:uuidv7",
            "inspect:daemon",
            "operate:daemon",
            "read:table:default",
            "read:table:shop",
            "edit:space:shop",
            "edit:space:shop2",
            "edit:space:default",
            "edit:space:default/orders",
            "allocate:region:default/orders",
            "lease:region:default/orders",
            "edit:region:default/team-a-1",
            "edit:region:default/moved",
            "edit:region:default/team-a-9",
            "edit:region:default/team-a-new",
            "edit:region:default/orders/eu",
            "edit:region:default/x/y",
            "admin:daemon",
            "allocate:layout:orders",
            "edit:layout:orders",
            "edit:layout:order",
        ];
        let cases: [(&[&str], &[&str]); 22] = [
            (&[], &[]),
            (&["admin:*"], &all),
            (&["allocate:uuidv7"], &["allocate:uuidv7"]),
            (&["allocate:uu*"], &["allocate:uuidv7", "allocate:uuidv6"]),
            (&["allocate:uid11-fullrand"], &["allocate:uid11-fullrand"]),
            (&["allocate:serial:GBP"], &["allocate:serial:GBP"]),
            (&["allocate:serial:GB*"], &["allocate:serial:GBP", "allocate:serial:GB"]),
            (&["inspect:*"], &["inspect:daemon"]),
            (&["allocate:layout:orders"], &["allocate:layout:orders"]),
            (&["edit:layout:ord*"], &["edit:layout:orders", "edit:layout:order"]),
            (&["admin:layout:orders"], &["allocate:layout:orders", "edit:layout:orders"]),
            (&["operate:*"], &["operate:daemon"]),
            (&["read:region:default/*"], &["read:table:default"]),
            (&["read:space:default"], &["read:table:default"]),
            (&["read:space:sh*"], &["read:table:shop"]),
            (&["edit:space:shop"], &["edit:space:shop"]),
            (&["edit:space:shop*"], &["edit:space:shop", "edit:space:shop2"]),
            (
                &["allocate:region:default/orders", "lease:region:default/orders"],
                &["allocate:region:default/orders", "lease:region:default/orders"],
            ),
            // `moved` was created as team-a-2, and `team-a-9` as secret.
            (
                &["edit:region:default/team-a-*"],
                &["edit:region:default/team-a-1", "edit:region:default/moved", "edit:region:default/team-a-new"],
            ),
            // Rights on the space of a delegated region do not include the region itself.
            (&["edit:space:default/orders"], &["edit:space:default/orders", "edit:region:default/orders/eu"]),
            (&["edit:region:default/orders/eu"], &["edit:region:default/orders/eu"]),
            (&["admin:region:default/orders"], &["allocate:region:default/orders", "lease:region:default/orders"]),
        ];
        for (given, allowed) in cases {
            let rights = rights(given);
            for text in all {
                assert_eq!(may(&rights, text), allowed.contains(&text), "{given:?} {text}");
            }
        }
    }

    #[test]
    fn ok_admin_covers_what_is_within_it() {
        let cases: [(&str, &[&str], &[&str]); 11] = [
            ("admin:layout:o*", &["lease:layout:orders", "edit:layout:or*"], &["edit:layout:*", "edit:layout:x"]),
            ("admin:*", &["admin:*", "operate:*", "allocate:uuid*", "edit:region:default/orders"], &[]),
            ("admin:uuidv7", &["allocate:uuidv7", "admin:uuidv7"], &["allocate:uuidv6", "allocate:uuid*", "lease:*"]),
            ("admin:uuid*", &["allocate:uuidv7", "allocate:uuidv*"], &["allocate:ui*", "allocate:uid11*"]),
            ("admin:serial:G*", &["lease:serial:GBP", "lease:serial:GB*"], &["lease:serial:*", "lease:uuidv7"]),
            ("admin:region:default/orders", &["read:region:default/orders"], &["read:region:default/o*", "read:*"]),
            (
                "admin:region:default/team-a-*",
                // The region `moved` was created as team-a-2.
                &["edit:region:default/team-a-1", "edit:region:default/team-a-x*", "edit:region:default/moved"],
                // The region `team-a-9` was created as secret.
                &["edit:region:default/team-*", "edit:region:default/team-a-9", "edit:space:default"],
            ),
            (
                "admin:space:default",
                &["edit:region:default/orders", "edit:region:default/*", "edit:space:default"],
                &["edit:space:default/orders", "edit:region:default/orders/eu", "edit:region:*", "edit:space:d*"],
            ),
            (
                "admin:space:*",
                &["edit:region:*", "edit:space:default/orders", "edit:space:x*"],
                &["operate:*", "lease:*"],
            ),
            ("admin:region:*", &["edit:region:default/orders/eu", "read:region:shop/*"], &["edit:space:default"]),
            ("edit:region:default/orders", &[], &["edit:region:default/orders", "read:region:default/orders"]),
        ];
        for (given, covered, not) in cases {
            let rights = rights(&[given]);
            covered.iter().for_each(|text| assert!(rights.covers(&right(text)), "{given} covers {text}"));
            not.iter().for_each(|text| assert!(!rights.covers(&right(text)), "{given} does not cover {text}"));
        }
    }

    const GIVEN: [&str; 15] = [
        "*",
        "layout:orders",
        "layout:o*",
        "layout:*",
        "uuidv7",
        "uuid*",
        "serial:GBP",
        "serial:G*",
        "space:shop",
        "space:*",
        "space:default",
        "region:*",
        "region:default/*",
        "region:default/team-a-*",
        "region:default/moved",
    ];
    const DONE: [&str; 10] = [
        "allocate:layout:orders",
        "edit:layout:other",
        "allocate:uuidv7",
        "allocate:uuidv6",
        "lease:serial:GBP",
        "edit:space:shop",
        "read:table:default",
        "edit:region:default/moved",
        "edit:region:default/team-a-9",
        "lease:region:default/orders/eu",
    ];

    proptest! {
        /// A caller that may give a right to others also has that right.
        #[test]
        fn ok_what_is_covered_allows_no_more(wide in prop::sample::select(&GIVEN[..]), narrow in prop::sample::select(&GIVEN[..])) {
            let (wide, narrow) = (format!("admin:{wide}"), format!("admin:{narrow}"));
            let (maker, given) = (rights(&[&wide]), rights(&[&narrow]));
            let is_covered = maker.covers(&right(&narrow));
            for done in DONE {
                let exceeds = may(&given, done) && !may(&maker, done);
                prop_assert!(!(is_covered && exceeds), "{wide} covers {narrow}, which allows {done}");
            }
            prop_assert!(wide != narrow || is_covered);
        }
    }
}
