//! The arguments of `kent budget`.

use clap::Subcommand;
use kent_access::{Holder, TokenId, check_role_name};

use super::{
    access::FormArg,
    value::{parse_count, parse_resource, parse_total},
};

/// Limit how many identifiers a token or a role may take from one source in total.
#[derive(Debug, Subcommand)]
pub(crate) enum BudgetCommand {
    /// List budgets: how much of each is used, how much is left, and how many days the rest will last.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  kent budget show\n  kent budget show shop\n  kent budget show --json"
    )]
    Show {
        /// The ID of a token or the name of a role; by default, all.
        #[arg(value_parser = parse_holder)]
        holder: Option<String>,
        /// The output format; json is the same as --json.
        #[arg(short, long, value_name = "FORM", default_value = "table")]
        output: FormArg,
    },
    /// Set the total of a budget. Creates the budget if it does not exist. A new budget counts the identifiers taken
    /// from then on.
    ///
    /// Calls that would take more are refused with RESOURCE_EXHAUSTED. All holders of a role share its budget. A call
    /// must be within the budgets of its token and of all its roles.
    #[command(
        after_help = "Examples:\n  kent budget set shop region:default/orders 1M\n  kent budget set 3f9a1c0b77de uuidv7 10k\n  \
                      kent budget set shop serial:GBP 0                nothing more"
    )]
    Set {
        /// The ID of a token or the name of a role.
        #[arg(value_parser = parse_holder)]
        holder: String,
        /// The source: a format, serial:SYMBOL or region:SPACE/NAME.
        #[arg(value_parser = parse_resource)]
        resource: String,
        /// The number of identifiers in total. A unit may follow: k, M or G.
        #[arg(value_parser = parse_total, allow_negative_numbers = true)]
        total: u64,
    },
    /// Add to the total of a budget.
    #[command(after_help = "Example:\n  kent budget add shop region:default/orders +500k")]
    Add {
        /// The ID of a token or the name of a role.
        #[arg(value_parser = parse_holder)]
        holder: String,
        /// The source, as `kent budget show` names it.
        #[arg(value_parser = parse_resource)]
        resource: String,
        /// The number of identifiers to add. A unit may follow: k, M or G.
        #[arg(value_parser = parse_more, allow_negative_numbers = true)]
        count: u64,
    },
    /// Remove a budget, after asking for confirmation on a terminal: its holder may then take any number of
    /// identifiers.
    #[command(visible_alias = "delete", after_help = "Example:\n  kent budget rm shop region:default/orders")]
    Rm {
        /// The ID of a token or the name of a role.
        #[arg(value_parser = parse_holder)]
        holder: String,
        /// The source, as `kent budget show` names it.
        #[arg(value_parser = parse_resource)]
        resource: String,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },
}

pub(super) const BUDGET_HELP: &str = "\
Examples:
  kent budget set shop region:default/orders 1M
  kent token create ci --allow lease:uuidv7 --budget uuidv7=10k
  kent budget show
  kent budget add shop region:default/orders +500k
  kent budget rm shop region:default/orders";

/// Parses the ID of a token or the name of a role: alone, or as token:ID or role:NAME, the form that `kent budget show`
/// prints.
fn parse_holder(text: &str) -> Result<String, String> {
    let expected = || {
        "expected the ID of a token, such as 3f9a1c0b77de (`kent token ls`), or the name of a role (`kent role ls`); write \
         role:NAME if the name looks like an ID"
            .to_owned()
    };
    let holder = match (text.parse::<TokenId>(), text.contains(':')) {
        (Ok(id), _) => Holder::Token(id),
        (Err(_), true) => text.parse().map_err(|_| expected())?,
        (Err(_), false) => check_role_name(text).map(|()| Holder::Role(text.to_owned())).map_err(|_| expected())?,
    };
    Ok(holder.to_string())
}

fn parse_more(text: &str) -> Result<u64, String> {
    parse_count(text.strip_prefix('+').unwrap_or(text)).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_holder_is_a_token_or_a_role() {
        for (text, expected) in [
            ("3f9a1c0b77de", Some("token:3f9a1c0b77de")),
            ("token:3f9a1c0b77de", Some("token:3f9a1c0b77de")),
            ("role:3f9a1c0b77de", Some("role:3f9a1c0b77de")),
            ("shop", Some("role:shop")),
            ("Shop", None),
            ("token:shop", None),
            ("certificate:shop", None),
        ] {
            assert_eq!(parse_holder(text).ok().as_deref(), expected, "{text}");
        }
    }
}
