//! Conditions on regions: `--filter owner=billing`, `--filter 'fill>80'` and `-l team=checkout`.

use std::str::FromStr;

use kent_proto::v1::{Region, region::Kind};

use crate::describe::{kind_name, order_name};
use crate::names;
use crate::number;

/// A condition of `--filter`: a field, an operator and a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    /// A text field, and the pattern that it must or must not match.
    Text { field: Field, pattern: String, is_wanted: bool },
    /// The issued share of the capacity, in percent.
    Fill(Comparison, f64),
}

/// A text field of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Name,
    Owner,
    Description,
    State,
    Order,
    Label(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Below,
    AtMost,
    Equal,
    Different,
    AtLeast,
    Above,
}

/// The operators. Each comes before its own prefixes, so `>=` is not mistaken for `>`.
const OPERATORS: [(&str, Comparison); 6] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    ("!=", Comparison::Different),
    (">", Comparison::Above),
    ("<", Comparison::Below),
    ("=", Comparison::Equal),
];

const ORDERS: [&str; 3] = ["sequential", "scrambled", "external"];

const STATES: [&str; 5] = ["open", "partial", "closed", "sealed", "delegated"];

const WANTED: &str = "expected FIELD=PATTERN or FIELD!=PATTERN, where FIELD is name, owner, description, state, order or \
label.NAME, such as 'name=eu-*'; or fill with =, !=, <, <=, > or >= and a percentage, such as 'fill>80' (with the quotes)";

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((first, second)) = two_conditions(text) {
            return Err(format!(
                "{text:?} has two conditions: repeat --filter, as in --filter '{first}' --filter '{second}'"
            ));
        }
        let at = text.find(['=', '!', '<', '>']).unwrap_or(text.len());
        let (field, rest) = text.split_at(at);
        let operator = OPERATORS.iter().find_map(|(sign, operator)| Some((*operator, rest.strip_prefix(*sign)?)));
        let (operator, value) = operator.ok_or_else(|| format!("{text:?} has no operator; {WANTED}"))?;
        let (field, value) = (field.trim(), value.trim());
        if field == "fill" {
            let percent = value.strip_suffix('%').unwrap_or(value).trim().parse().ok();
            let percent: Option<f64> = percent.filter(|percent: &f64| percent.is_finite());
            let percent = percent.ok_or_else(|| format!("{value:?} is not a percentage; {WANTED}"))?;
            let is_possible = match operator {
                Comparison::Above => (0.0..100.0).contains(&percent),
                Comparison::Below => percent > 0.0 && percent <= 100.0,
                _ => (0.0..=100.0).contains(&percent),
            };
            return match is_possible {
                true => Ok(Self::Fill(operator, percent)),
                false => Err(format!(
                    "{text:?} is out of range: the fill of a region is 0 to 100 percent; for example: 'fill>80'"
                )),
            };
        }
        let field = match field.split_once('.') {
            None if field == "name" => Field::Name,
            None if field == "owner" => Field::Owner,
            None if field == "description" => Field::Description,
            None if field == "state" => Field::State,
            None if field == "order" => Field::Order,
            Some(("label", name)) if !name.is_empty() => Field::Label(name.to_owned()),
            _ => return Err(format!("there is no field {field:?}; {WANTED}")),
        };
        field.check(value)?;
        let is_wanted = match operator {
            Comparison::Equal => true,
            Comparison::Different => false,
            _ => return Err(format!("only fill can be compared with < and >; {WANTED}")),
        };
        Ok(Self::Text { field, pattern: value.to_owned(), is_wanted })
    }
}

/// Splits a string such as `a=1,b=2` or `a=1 and b=2`, which users of other tools may write for two conditions.
fn two_conditions(text: &str) -> Option<(&str, &str)> {
    let split = |joint| text.split_once(joint).filter(|(first, second)| is_condition(first) && is_condition(second));
    [" and ", " AND ", "&&", ","].into_iter().find_map(split).map(|(first, second)| (first.trim(), second.trim()))
}

fn is_condition(text: &str) -> bool {
    text.trim().parse::<Condition>().is_ok()
}

impl Condition {
    pub(crate) fn holds(&self, region: &Region) -> bool {
        match self {
            Self::Text { field, pattern, is_wanted } => field.matches(region, pattern) == *is_wanted,
            // A closed region has no capacity, so no comparison holds.
            Self::Fill(comparison, percent) => {
                let fill = number::share(&region.issued, &region.capacity).filter(|_| region.kind() != Kind::Closed);
                fill.is_some_and(|fill| comparison.holds(fill * 100.0, *percent))
            }
        }
    }
}

/// The characters that a pattern for names may contain besides letters and digits.
const NAME_SYMBOLS: &str = "-_.*?";

impl Field {
    /// Rejects a pattern that no region can match.
    fn check(&self, pattern: &str) -> Result<(), String> {
        match self {
            Self::State if !STATES.contains(&pattern) => {
                Err(format!("there is no state {pattern:?}; a region is {}", STATES.join(", ")))
            }
            Self::Order if !ORDERS.iter().any(|order| glob(pattern, order)) => {
                Err(format!("there is no order {pattern:?}; a region is {}", ORDERS.join(", ")))
            }
            Self::Name if pattern.is_empty() || !pattern.chars().all(is_of_name) => Err(format!(
                "{pattern:?} cannot match the name of a region: use a-z A-Z 0-9 - _ . with * for any text and ? for one character, such as 'name=eu-*'"
            )),
            Self::Label(name) if pattern.is_empty() => Err(format!(
                "a label has no empty value; use -l '!{name}' for regions without the label, or -l {name} for those with it"
            )),
            _ => Ok(()),
        }
    }

    fn matches(&self, region: &Region, pattern: &str) -> bool {
        match self {
            Self::Name => glob(pattern, names::short(&region.name)),
            Self::Owner => glob(pattern, &region.owner),
            Self::Description => glob(pattern, &region.description),
            Self::Order => glob(pattern, order_name(region.order())),
            Self::Label(name) => region.labels.get(name).is_some_and(|value| glob(pattern, value)),
            Self::State => match pattern {
                "sealed" => region.sealed,
                "delegated" => !region.delegated_space.is_empty(),
                kind => kind_name(region.kind()) == kind,
            },
        }
    }
}

impl Comparison {
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Below => left < right,
            Self::AtMost => left <= right,
            Self::Equal => left == right,
            Self::Different => left != right,
            Self::AtLeast => left >= right,
            Self::Above => left > right,
        }
    }
}

/// Conditions on labels as in kubectl: `team=checkout,tier!=test,audited,!legacy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector(Vec<Label>);

/// A label that a region must have or must not have, with this value or any value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Label {
    name: String,
    value: Option<String>,
    is_wanted: bool,
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(|label| Label::parse(label.trim())).collect::<Result<_, _>>().map(Self)
    }
}

impl Selector {
    pub(crate) fn holds(&self, region: &Region) -> bool {
        self.0.iter().all(|Label { name, value, is_wanted }| {
            let found = region.labels.get(name).is_some_and(|label| value.as_ref().is_none_or(|value| label == value));
            found == *is_wanted
        })
    }
}

impl Label {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, value, is_wanted) = match (text.split_once("!="), text.split_once('='), text.strip_prefix('!')) {
            (Some((name, value)), _, _) => (name, Some(value), false),
            (None, Some((name, value)), _) => (name, Some(value.strip_prefix('=').unwrap_or(value)), true),
            (None, None, Some(name)) => (name, None, false),
            (None, None, None) => (text, None, true),
        };
        let name = name.trim_end();
        // Reject other selectors, such as `team in (a,b)` and `tier>1`, which would otherwise be mistaken for names.
        if name.is_empty()
            || name.contains(['!', '=', '<', '>', '~', '(', ')', ' ', '\t'])
            || value.is_some_and(|value| value.is_empty() || value.starts_with('~'))
        {
            return Err(format!(
                "{text:?} is not a condition on a label; expected NAME=VALUE, NAME!=VALUE, NAME or !NAME, such as \
team=checkout; 'label.NAME=PATTERN' of --filter compares with patterns"
            ));
        }
        Ok(Self { name: name.to_owned(), value: value.map(str::to_owned), is_wanted })
    }
}

fn is_of_name(symbol: char) -> bool {
    symbol.is_ascii_alphanumeric() || NAME_SYMBOLS.contains(symbol)
}

/// Returns whether a string matches a pattern, in which `*` matches any characters and `?` matches one.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // On a mismatch, the last star matches one more character.
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(symbol) if *symbol == '?' || *symbol == text[t] => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                (p, t) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|symbol| *symbol == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::samples;

    fn region() -> Region {
        let mut region = samples::region("eu-orders", "", "0", 5, Kind::Open); // a quarter of it is issued
        region.owner = "billing".to_owned();
        region.labels =
            [("team", "checkout"), ("tier", "1")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        region.sealed = true;
        region
    }

    #[test]
    fn ok_conditions() {
        for (text, expected) in [
            ("name=eu-*", true),
            ("name=*orders", true),
            ("name=orders", false),
            ("name!=us-*", true),
            ("name=??-o*s", true),
            ("owner=billing", true),
            ("owner = billing", true),
            ("owner!=billing", false),
            ("owner=", false),
            ("description=", true),
            ("state=open", true),
            ("state=sealed", true),
            ("state!=delegated", true),
            ("state=closed", false),
            ("order=sequential", true),
            ("order=s*", true),
            ("fill<=100", true),
            ("fill>=0", true),
            ("label.team=check*", true),
            ("label.none!=x", true),
            ("fill>24.9", true),
            ("fill>=25", true),
            ("fill>25%", false),
            ("fill<80", true),
            ("fill<=25", true),
            ("fill=25", true),
            ("fill!=25", false),
        ] {
            let condition: Condition = text.parse().expect(text);
            assert_eq!(condition.holds(&region()), expected, "{text}");
        }
        let closed = samples::region("all", "", "1", 0, Kind::Closed);
        for text in ["fill<1", "fill>=0", "fill!=5"] {
            assert!(!text.parse::<Condition>().expect(text).holds(&closed), "{text}");
        }
    }

    #[test]
    fn err_conditions() {
        for (text, hint) in [
            ("", "no operator"),
            ("fill", "'fill>80' (with the quotes)"),
            ("name~eu", "no operator"),
            ("fill>", "not a percentage"),
            ("fill>much", "not a percentage"),
            ("fill>inf", "not a percentage"),
            ("owner=a and fill>80", "--filter 'owner=a' --filter 'fill>80'"),
            ("owner=a,state=open", "has two conditions"),
            ("color=red", "no field \"color\""),
            ("label=team=x", "no field \"label\""),
            ("label.=x", "label.NAME"),
            ("state=shut", "open, partial, closed, sealed, delegated"),
            ("order=random", "sequential, scrambled, external"),
            ("order!=random", "sequential, scrambled, external"),
            ("fill>101", "0 to 100"),
            ("fill>100", "0 to 100"),
            ("fill<0", "0 to 100"),
            ("fill=-1", "0 to 100"),
            ("fill!=200%", "0 to 100"),
            ("name=", "such as 'name=eu-*'"),
            ("name=eu orders", "such as 'name=eu-*'"),
            ("label.team=", "-l '!team'"),
            ("label.team!=", "-l team"),
            ("name>a", "only fill"),
            ("=a", "no field"),
        ] {
            let error = text.parse::<Condition>().expect_err(text);
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn ok_and_err_selectors() {
        for (text, expected) in [
            ("team=checkout", true),
            ("team==checkout", true),
            ("team=other", false),
            ("team=checkout,tier=1", true),
            ("team=checkout, tier=2", false),
            ("tier!=2", true),
            ("none!=x", true),
            ("tier", true),
            ("none", false),
            ("!none", true),
            ("!tier", false),
        ] {
            assert_eq!(text.parse::<Selector>().expect(text).holds(&region()), expected, "{text}");
        }
        for text in [
            "",
            ",",
            "team=checkout,",
            "=x",
            "!",
            "!=x",
            "!a=b",
            "team=",
            "team in (a,b)",
            "tier>1",
            "a b=c",
            "team=~x",
            "(team=a)",
        ] {
            let error = text.parse::<Selector>().expect_err(text);
            assert!(error.contains("such as team=checkout"), "{text}: {error}");
        }
    }

    #[test]
    fn ok_patterns() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*ab", "aab", true),
            ("a?", "a", false),
            ("ä*", "äö", true),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
    }
}
