//! Human-readable descriptions of where an identifier belongs.

use crate::v1::{Classification, classification::Status};

/// A classification in words.
#[derive(Clone, Copy, Debug)]
pub struct Classified<'a>(pub &'a Classification);

impl Classified<'_> {
    /// Returns the identifier in the text form of its space.
    pub fn text(self) -> String {
        match self.0.text.as_str() {
            "" => self.0.identifier.map(u128::from).unwrap_or_default().to_string(),
            text => text.to_owned(),
        }
    }

    /// Returns the status, in lower case.
    pub fn status(self) -> &'static str {
        match self.0.status() {
            Status::Member => "member",
            Status::Reserved => "reserved",
            Status::Unassigned => "unassigned",
            Status::Free => "free",
            Status::Unspecified => "unknown",
        }
    }

    /// Returns the names of the regions that contain the identifier, outermost first.
    pub fn path(self) -> String {
        let names: Vec<_> = self.0.path.iter().map(|name| short_name(name)).collect();
        let path = if names.is_empty() { "-".to_owned() } else { names.join(" > ") };
        // The path within the space of a delegated region follows.
        match &self.0.local {
            Some(local) => format!("{path} / {} ({})", Classified(local).path(), Classified(local).status()),
            None => path,
        }
    }

    /// Returns the suffix if the identifier belongs to a region.
    pub fn suffix(self) -> Option<String> {
        let suffix = || self.0.suffix.map(u128::from).unwrap_or_default().to_string();
        self.is_member().then(suffix)
    }

    /// Returns whether the identifier is issued, if it belongs to a region. If the region has been split since the
    /// identifier was issued, adds the prefix at the time of issue, formatted by `shown`.
    pub fn issued(self, shown: impl FnOnce(&str) -> String) -> Option<String> {
        if self.0.others {
            return Some("not known: outside the step".to_owned());
        }
        let issued = || match (self.0.issued, self.0.issued_prefix.as_deref()) {
            (true, None) => "yes".to_owned(),
            (true, Some(prefix)) => format!("yes, when the prefix was {}", shown(prefix)),
            (false, _) => "no".to_owned(),
        };
        self.is_member().then(issued)
    }

    /// Returns the status, the path, the suffix and whether the identifier is issued, as rows of name and value.
    pub fn rows(self, shown: impl FnOnce(&str) -> String) -> Vec<(&'static str, String)> {
        let mut rows = vec![("status", self.status().to_owned()), ("path", self.path())];
        rows.extend(self.suffix().map(|suffix| ("suffix", suffix)));
        rows.extend(self.issued(shown).map(|issued| ("issued", issued)));
        rows
    }

    fn is_member(self) -> bool {
        self.0.status() == Status::Member
    }
}

/// Returns the short name of a resource: a region's name within its space, or a space's name, which may be a path.
pub fn short_name(resource: &str) -> &str {
    match resource.rsplit_once("/regions/") {
        Some((_, region)) => region,
        None => resource.strip_prefix("spaces/").unwrap_or(resource),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_classification_in_words() {
        let free =
            Classification { status: Status::Free.into(), identifier: Some(7.into()), ..Classification::default() };
        assert_eq!(Classified(&free).text(), "7");
        assert_eq!(Classified(&free).rows(str::to_owned), [("status", "free".to_owned()), ("path", "-".to_owned())]);
        let member = Classification {
            status: Status::Member.into(),
            path: vec!["spaces/default/regions/orders".to_owned(), "spaces/default/regions/eu".to_owned()],
            suffix: Some(5.into()),
            issued: true,
            issued_prefix: Some("1".to_owned()),
            local: Some(Box::new(free)),
            ..Classification::default()
        };
        let rows = Classified(&member).rows(|prefix| format!("{prefix}/1"));
        let values: Vec<&str> = rows.iter().map(|(_, value)| &**value).collect();
        assert_eq!(values, ["member", "orders > eu / - (free)", "5", "yes, when the prefix was 1/1"]);
    }
}
