//! Resource names: `spaces/SPACE`, `spaces/SPACE/regions/REGION` and `spaces/SPACE/requests/ID`.

use kent_ids::check_name;

use super::Invalid;

/// The valid name of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceName(String);

/// The valid names of a region and its space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionName {
    /// The name of the space.
    pub space: String,
    /// The name of the region.
    pub region: String,
}

impl SpaceName {
    /// Parses `spaces/SPACE` from a field.
    ///
    /// # Errors
    ///
    /// Returns [`Invalid`], which names the field.
    pub fn parse(field: &'static str, name: &str) -> Result<Self, Invalid> {
        let space = name.strip_prefix("spaces/");
        let space =
            space.ok_or_else(|| Invalid::new(field, format!("is {:?}, but must be spaces/SPACE", shown(name))))?;
        check_space(field, space).map(Self)
    }

    /// Returns the name without `spaces/`.
    pub fn into_inner(self) -> String {
        self.0
    }
}

impl RegionName {
    /// Parses `spaces/SPACE/regions/REGION` from a field.
    ///
    /// # Errors
    ///
    /// Returns [`Invalid`], which names the field.
    pub fn parse(field: &'static str, name: &str) -> Result<Self, Invalid> {
        let parts = name.strip_prefix("spaces/").and_then(|rest| rest.rsplit_once("/regions/"));
        let wrong = || Invalid::new(field, format!("is {:?}, but must be spaces/SPACE/regions/REGION", shown(name)));
        let (space, region) = parts.ok_or_else(wrong)?;
        Ok(Self { space: check_space(field, space)?, region: check(field, region)? })
    }
}

/// The number of a request for a region, and the valid name of its space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestName {
    /// The name of the space.
    pub space: String,
    /// The number of the request.
    pub number: u64,
}

impl RequestName {
    /// Parses `spaces/SPACE/requests/ID` from a field.
    ///
    /// # Errors
    ///
    /// Returns [`Invalid`], which names the field.
    pub fn parse(field: &'static str, name: &str) -> Result<Self, Invalid> {
        let wrong = || Invalid::new(field, format!("is {:?}, but must be spaces/SPACE/requests/ID", shown(name)));
        let (space, id) =
            name.strip_prefix("spaces/").and_then(|rest| rest.rsplit_once("/requests/")).ok_or_else(wrong)?;
        // `parse` would also accept a sign.
        let number = id.bytes().all(|digit| digit.is_ascii_digit()).then(|| id.parse().ok()).flatten();
        Ok(Self { space: check_space(field, space)?, number: number.ok_or_else(wrong)? })
    }
}

/// Checks the name of a space or region in a field.
pub(super) fn check(field: &'static str, name: &str) -> Result<String, Invalid> {
    match check_name(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(fault) => {
            let rule = "a name has 1 to 63 characters of a-z A-Z 0-9 - _ . and starts with a letter or digit";
            Err(Invalid::new(field, format!("{:?} is not a valid name: {fault}; {rule}", shown(name))))
        }
    }
}

/// Checks the name of a space in a field. The space of a delegated region has a path of names, separated by `/`.
fn check_space(field: &'static str, name: &str) -> Result<String, Invalid> {
    name.split('/').try_for_each(|part| check(field, part).map(drop))?;
    Ok(name.to_owned())
}

/// Truncates a text for an error message, so that the reply stays small.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

/// The maximum number of characters that `shown` keeps, more than any valid name has.
const SHOWN_MAX: usize = 80;

/// The metadata key in the `ErrorInfo` when a closed region refuses a grant. The value is the source that continues the
/// region's numbers.
pub const HEIR: &str = "heir";

/// Returns `spaces/SPACE`.
pub fn space_name(space: &str) -> String {
    format!("spaces/{space}")
}

/// The value of `sealed_by` for a region whose name the caller may not know.
pub const CONCEALED: &str = "-";

/// Returns `spaces/SPACE/requests/ID`.
pub fn request_name(space: &str, number: u64) -> String {
    format!("spaces/{space}/requests/{number}")
}

/// Returns `spaces/SPACE/regions/REGION`.
pub fn region_name(space: &str, region: &str) -> String {
    format!("spaces/{space}/regions/{region}")
}
