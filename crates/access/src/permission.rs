//! Permissions, written `ACTION:RESOURCE`.

use alloc::{
    borrow::ToOwned,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, str::FromStr};

use kent_ids::{DEFAULT_SPACE, Format, Series, check_name};
use thiserror::Error;

use crate::action::Action;

/// A permission: an action and the resource on which it is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permission {
    action: Action,
    resource: Resource,
}

/// The resource on which an action is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// `*`: everything.
    Everything,
    /// The token of a format, or `uid11-fullrand`.
    Format(&'static str),
    /// All formats whose tokens begin with this string. Includes `uid11-fullrand` if that token begins with the string.
    Formats(String),
    /// `serial:SYMBOL`.
    Serial(Series),
    /// All serials whose symbols begin with this string.
    Serials(String),
    /// `space:SPACE`: a space with all its regions, but not the spaces of delegated regions.
    Space(String),
    /// All outermost spaces whose names begin with this string, and the spaces inside them.
    Spaces(String),
    /// `region:SPACE/NAME`.
    Region {
        /// The name of the space.
        space: String,
        /// The name of the region.
        name: String,
    },
    /// All regions of a space that were created with a name that begins with `prefix`.
    Regions {
        /// The name of the space.
        space: String,
        /// The beginning of the names.
        prefix: String,
    },
    /// `region:*`: every region of every space.
    AllRegions,
    /// `layout:NAME`.
    Layout(String),
    /// All custom layouts whose names begin with this string.
    Layouts(String),
}

/// What must be looked up before a permission can be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs<'p> {
    /// Nothing needs to be looked up.
    Nothing,
    /// The key of the space with this name.
    Space(&'p str),
    /// The key of a space, and a region's number and first name.
    Region {
        /// The name of the space.
        space: &'p str,
        /// The name of the region.
        name: &'p str,
    },
}

/// Reasons that a string is not a permission.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadPermission {
    /// There is no such action.
    #[error("{text:?} is not a permission: write ACTION:RESOURCE, where ACTION is {}, such as lease:uuidv7", actions())]
    Action {
        /// The string.
        text: String,
    },
    /// There is no such resource.
    #[error(
        "{text:?} is not a permission: {problem}; a RESOURCE is *, a format such as uuidv7, serial:SYMBOL, layout:NAME, \
         space:SPACE or region:SPACE/NAME, and may end in *, such as region:default/team-a-*"
    )]
    Resource {
        /// The string.
        text: String,
        /// What is wrong with the resource.
        problem: String,
    },
    /// The action is not possible on the resource.
    #[error("{text:?} is not a permission: {problem}")]
    Impossible {
        /// The string.
        text: String,
        /// Why the action is not possible, and what to write instead.
        problem: String,
    },
}

const SERIAL: &str = "serial:";
const SPACE: &str = "space:";
const REGION: &str = "region:";
const LAYOUT: &str = "layout:";

/// The maximum length of a permission in bytes: enough for any name, and small enough for a record to hold a hundred
/// permissions.
const LEN_MAX: usize = 600;

impl Permission {
    /// Makes a permission.
    ///
    /// # Errors
    ///
    /// Fails if the action is not possible on the resource.
    pub fn new(action: Action, resource: Resource) -> Result<Self, BadPermission> {
        let made = Self { action, resource };
        match made.problem() {
            None => Ok(made),
            Some(problem) => Err(BadPermission::Impossible { text: made.to_string(), problem }),
        }
    }

    /// The action that the permission allows.
    pub const fn action(&self) -> Action {
        self.action
    }

    /// The resource on which the action is allowed.
    pub const fn resource(&self) -> &Resource {
        &self.resource
    }

    /// What must be looked up to bind the permission. A bound right stays with its region, even if another region takes
    /// over the name.
    pub fn needs(&self) -> Needs<'_> {
        match &self.resource {
            Resource::Space(space) | Resource::Regions { space, .. } => Needs::Space(space),
            Resource::Region { space, name } => Needs::Region { space, name },
            Resource::Everything
            | Resource::Format(_)
            | Resource::Formats(_)
            | Resource::Serial(_)
            | Resource::Serials(_)
            | Resource::Spaces(_)
            | Resource::AllRegions
            | Resource::Layout(_)
            | Resource::Layouts(_) => Needs::Nothing,
        }
    }

    /// The same permission with other names for its space and region, such as the current names after a rename.
    #[must_use]
    pub fn with_names(&self, space: &str, region: Option<&str>) -> Self {
        let space = space.to_owned();
        let resource = match (&self.resource, region) {
            (Resource::Space(_), _) => Resource::Space(space),
            (Resource::Regions { prefix, .. }, _) => Resource::Regions { space, prefix: prefix.clone() },
            (Resource::Region { .. }, Some(name)) => Resource::Region { space, name: name.to_owned() },
            (other, _) => other.clone(),
        };
        Self { action: self.action, resource }
    }

    /// Why the action is not possible on the resource.
    fn problem(&self) -> Option<String> {
        let is_source = matches!(
            self.resource,
            Resource::Format(_) | Resource::Formats(_) | Resource::Serial(_) | Resource::Serials(_)
        );
        let is_everything = self.resource == Resource::Everything;
        match self.action {
            Action::Operate | Action::Inspect if !is_everything => {
                Some(format!("{0} concerns the daemon as a whole; write {0}:*", self.action))
            }
            Action::Read | Action::Edit if is_source => Some(format!(
                "{} concerns tables and layouts: name a space, regions or layouts, or * for all",
                self.action
            )),
            _ => None,
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.action, self.resource)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("*"),
            Self::Format(token) => f.write_str(token),
            Self::Formats(prefix) => write!(f, "{prefix}*"),
            Self::Serial(series) => series.fmt(f),
            Self::Serials(prefix) => write!(f, "{SERIAL}{prefix}*"),
            Self::Space(space) => write!(f, "{SPACE}{space}"),
            Self::Spaces(prefix) => write!(f, "{SPACE}{prefix}*"),
            Self::Region { space, name } => write!(f, "{REGION}{space}/{name}"),
            Self::Regions { space, prefix } => write!(f, "{REGION}{space}/{prefix}*"),
            Self::AllRegions => write!(f, "{REGION}*"),
            Self::Layout(name) => write!(f, "{LAYOUT}{name}"),
            Self::Layouts(prefix) => write!(f, "{LAYOUT}{prefix}*"),
        }
    }
}

impl FromStr for Permission {
    type Err = BadPermission;

    fn from_str(text: &str) -> Result<Self, BadPermission> {
        let shown = || text.chars().take(SHOWN_MAX).collect::<String>();
        if text.len() > LEN_MAX {
            return Err(BadPermission::Resource {
                text: shown(),
                problem: format!("it is longer than {LEN_MAX} bytes"),
            });
        }
        let bad_action = || BadPermission::Action { text: shown() };
        let (action, resource) = text.split_once(':').ok_or_else(bad_action)?;
        let action = action.parse().map_err(|()| bad_action())?;
        let resource = resource.parse().map_err(|problem| BadPermission::Resource { text: shown(), problem })?;
        Self::new(action, resource)
    }
}

impl FromStr for Resource {
    /// What is wrong.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Everything);
        }
        let (plain, is_pattern) = text.strip_suffix('*').map_or((text, false), |prefix| (prefix, true));
        if plain.contains('*') {
            return Err("* is allowed only at the end".to_owned());
        }
        if let Some(space) = plain.strip_prefix(SPACE) {
            return parse_space(space, is_pattern);
        }
        if let Some(region) = plain.strip_prefix(REGION) {
            return parse_region(region, is_pattern);
        }
        if let Some(layout) = plain.strip_prefix(LAYOUT) {
            return match (is_pattern, layout) {
                (true, "") => Ok(Self::Layouts(String::new())),
                (true, prefix) => check(prefix).map(|()| Self::Layouts(prefix.to_owned())),
                (false, name) => check(name).map(|()| Self::Layout(name.to_owned())),
            };
        }
        match plain.strip_prefix(SERIAL) {
            Some(symbol) if is_pattern => {
                match symbol.chars().all(|it| it.is_ascii_graphic()) && symbol.len() <= SYMBOL_MAX {
                    true => Ok(Self::Serials(symbol.to_owned())),
                    false => Err(format!("{symbol:?} is not the beginning of a symbol")),
                }
            }
            _ if is_pattern => match tokens().any(|token| token.starts_with(plain)) {
                true => Ok(Self::Formats(plain.to_owned())),
                false => Err(format!("no format begins with {plain:?}")),
            },
            _ => parse_source(plain),
        }
    }
}

/// Errors quote at most this many characters of an input.
const SHOWN_MAX: usize = 160;

/// An upper bound on the length of a serial's symbol.
const SYMBOL_MAX: usize = 63;

fn actions() -> String {
    Action::ALL.map(Action::as_str).join(", ")
}

/// The tokens of all sources that are neither serials nor regions nor layouts.
pub(crate) fn tokens() -> impl Iterator<Item = &'static str> {
    Format::all().map(|format| format.token()).chain([FULL_RAND])
}

/// The token of [`Series::FullRand`].
pub(crate) const FULL_RAND: &str = "uid11-fullrand";

fn parse_source(text: &str) -> Result<Resource, String> {
    if let Some(token) = tokens().find(|token| *token == text) {
        return Ok(Resource::Format(token));
    }
    match text.parse::<Series>() {
        Ok(series) => Ok(Resource::Serial(series)),
        Err(error) if text.starts_with("serial") => Err(error.to_string()),
        Err(_) => Err(format!("there is no resource {text:?}")),
    }
}

fn parse_space(text: &str, is_pattern: bool) -> Result<Resource, String> {
    match (is_pattern, text) {
        (true, "") => Ok(Resource::Spaces(String::new())),
        (true, prefix) if prefix.contains('/') => {
            Err("the space of a delegated region must be named exactly, without *".to_owned())
        }
        (true, prefix) => check(prefix).map(|()| Resource::Spaces(prefix.to_owned())),
        (false, space) => check_space(space).map(|()| Resource::Space(space.to_owned())),
    }
}

fn parse_region(text: &str, is_pattern: bool) -> Result<Resource, String> {
    if is_pattern && text.is_empty() {
        return Ok(Resource::AllRegions);
    }
    let (space, name) = text.rsplit_once('/').ok_or_else(|| {
        let star = if is_pattern { "*" } else { "" };
        format!("the space is missing: write region:{DEFAULT_SPACE}/{text}{star}")
    })?;
    check_space(space)?;
    match (is_pattern, name) {
        (true, "") => {}
        (_, name) => check(name)?,
    }
    let (space, name) = (space.to_owned(), name.to_owned());
    Ok(if is_pattern { Resource::Regions { space, prefix: name } } else { Resource::Region { space, name } })
}

/// Checks the name of a space. The name of a delegated region's space is a path.
fn check_space(space: &str) -> Result<(), String> {
    space.split('/').collect::<Vec<_>>().into_iter().try_for_each(check)
}

fn check(name: &str) -> Result<(), String> {
    check_name(name).map_err(|fault| format!("{name:?} is not a name: {fault}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ok_permissions_are_printed_as_they_are_written() {
        let texts = [
            "admin:*",
            "operate:*",
            "inspect:*",
            "allocate:*",
            "allocate:uuidv7",
            "lease:uuid*",
            "allocate:uid11-fullrand",
            "allocate:serial:GBP",
            "lease:serial:G*",
            "lease:serial:*",
            "edit:space:shop",
            "read:space:default/orders",
            "read:space:*",
            "edit:space:team-*",
            "allocate:region:default/orders",
            "allocate:region:default/orders/eu",
            "edit:region:default/team-a-*",
            "read:region:default/*",
            "read:region:*",
            "admin:region:default/team-a-*",
            "allocate:layout:orders",
            "edit:layout:team-a-*",
            "read:layout:*",
        ];
        for text in texts {
            let parsed: Permission = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed.to_string(), text);
        }
        let short = "allocate:serialA:GBP".parse::<Permission>().expect("a permission");
        assert_eq!(short.to_string(), "allocate:serial:GBP");
    }

    #[test]
    fn err_other_texts() {
        let cases = [
            ("", "write ACTION:RESOURCE"),
            ("allocate", "write ACTION:RESOURCE"),
            ("grant:uuidv7", "where ACTION is allocate, lease, inspect, read, edit, operate, admin"),
            ("Allocate:uuidv7", "where ACTION is"),
            ("allocate:", "there is no resource \"\""),
            ("allocate:uuidv9", "there is no resource \"uuidv9\""),
            ("allocate:uuidv9*", "no format begins with \"uuidv9\""),
            ("allocate:region:orders", "write region:default/orders"),
            ("allocate:region:orders*", "write region:default/orders*"),
            ("allocate:region:a*b/c", "* is allowed only at the end"),
            ("allocate:region:default/-x", "is not a name"),
            ("allocate:region:default/", "is not a name"),
            ("allocate:region:/x", "is not a name"),
            ("allocate:space:", "is not a name"),
            ("allocate:space:default/x*", "must be named exactly"),
            ("allocate:serial:", "serial"),
            ("allocate:layout:", "is not a name"),
            ("allocate:layout:a/b*", "is not a name"),
            ("inspect:layout:a", "write inspect:*"),
            ("allocate:serial:\u{e9}*", "is not the beginning of a symbol"),
            ("operate:uuidv7", "write operate:*"),
            ("operate:space:default", "write operate:*"),
            ("inspect:uuidv7", "write inspect:*"),
            ("read:uuidv7", "read concerns tables"),
            ("edit:serial:GBP", "edit concerns tables"),
        ];
        for (text, expected) in cases {
            let error = text.parse::<Permission>().expect_err(text).to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        let long = alloc::format!("allocate:{}", "x".repeat(10_000));
        let error = long.parse::<Permission>().expect_err("too long").to_string();
        assert!(error.len() < 500, "{error}");
    }

    proptest! {
        #[test]
        fn ok_every_text_is_refused_or_printed_back(text in "(allocate|lease|read|edit|admin|operate|x):[a-z0-9:*/-]{0,20}|.{0,30}") {
            if let Ok(permission) = text.parse::<Permission>() {
                let printed = permission.to_string();
                prop_assert_eq!(printed.parse::<Permission>(), Ok(permission));
            }
        }

        #[test]
        fn ok_names_round_trip(space in "[a-z][a-z0-9.-]{0,8}(/[a-z]{1,4}){0,2}", name in "[a-z][a-z0-9.-]{0,8}", star in any::<bool>()) {
            let text = alloc::format!("edit:region:{space}/{name}{}", if star { "*" } else { "" });
            prop_assert_eq!(text.parse::<Permission>().expect("a permission").to_string(), text);
        }
    }
}
