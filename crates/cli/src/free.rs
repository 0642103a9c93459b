//! `kent space free`: the free blocks of a space, and the place that a new region would get.

use kent_client::Daemon;
use kent_proto::v1::{FreeBlock, ListFreeBlocksRequest, PlaceOfRegion};
use serde_json::json;

use crate::args::FreeArgs;
use crate::classify::width;
use crate::connect::request;
use crate::failure::Failure;
use crate::names;
use crate::number;
use crate::output::{Out, Palette};
use crate::table::Table;

/// The maximum number of blocks per page.
const PAGE_SIZE: u32 = 1000;

/// The number of blocks that are shown to people by default.
const SHOWN: usize = 20;

pub(crate) async fn run(args: &FreeArgs, daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    let bits = width(&args.space, daemon).await?;
    check(args, bits)?;
    let default = if out.is_json() { usize::MAX } else { SHOWN };
    let most = args.limit.map_or(default, |limit| limit as usize); // OK because a usize has at least 32 bits
    let mut found = Found { bits, blocks: Vec::new(), count: 0, share: 0.0, choice: None };
    let mut page_token = String::new();
    loop {
        let message = ListFreeBlocksRequest {
            parent: names::space(&args.space),
            page_size: PAGE_SIZE,
            page_token,
            at_least_bits: args.at_least,
            suffix_bits: args.suffix,
            zone_bits: args.zone,
        };
        let page = daemon.regions().list_free_blocks(request(message)).await?.into_inner();
        found.choice = page.choice;
        found.add(page.blocks, most);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return found.write(args, out);
        }
    }
}

/// Rejects widths that no block of the space can have.
fn check(args: &FreeArgs, bits: u32) -> Result<(), Failure> {
    let wanted = args.suffix.unwrap_or_default().saturating_add(args.zone.unwrap_or_default());
    for (flag, value) in [("--at-least", args.at_least), ("--suffix and --zone together", wanted)] {
        if value > bits {
            let space = &args.space;
            return Err(Failure::Usage(format!(
                "space {space} has identifiers of {bits} bits, so {flag} can be at most {bits}, not {value} (kent space free {space} --at-least {bits})"
            )));
        }
    }
    Ok(())
}

/// The free blocks of a space.
struct Found {
    /// The width of the space's identifiers.
    bits: u32,
    /// The largest blocks.
    blocks: Vec<FreeBlock>,
    /// The number of all blocks.
    count: usize,
    /// The share of the space that all blocks take.
    share: f64,
    /// The place for the new region, if one was requested and a block is large enough.
    choice: Option<PlaceOfRegion>,
}

impl Found {
    fn add(&mut self, blocks: Vec<FreeBlock>, most: usize) {
        self.count += blocks.len();
        self.share += blocks.iter().map(|block| self.share_of(block)).sum::<f64>();
        let left = most.saturating_sub(self.blocks.len());
        self.blocks.extend(blocks.into_iter().take(left));
    }

    fn share_of(&self, block: &FreeBlock) -> f64 {
        // OK because blocks and spaces have at most 128 bits.
        2_f64.powi(block.bits as i32 - self.bits as i32)
    }

    fn write(&self, args: &FreeArgs, out: &mut Out) -> Result<(), Failure> {
        if out.is_json() {
            for block in &self.blocks {
                out.json(&json!({"prefix": block.prefix, "bits": block.bits, "share": self.share_of(block)}))?;
            }
            return match (args.suffix, &self.choice) {
                (None, _) => Ok(()),
                (Some(suffix), choice) => {
                    out.json(&json!({"suffix_bits": suffix, "choice": choice.as_ref().map(|choice| {
                        json!({"prefix": choice.prefix, "zone_bits": choice.zone_bits, "block": choice.block})
                    })}))
                }
            };
        }
        out.fitted(|palette| self.render(args, palette))
    }

    fn render(&self, args: &FreeArgs, palette: Palette) -> String {
        let mut text = String::new();
        if !self.blocks.is_empty() {
            let mut table = Table::new(["PREFIX", ">BITS", ">IDENTIFIERS", ">SHARE"]);
            for block in &self.blocks {
                table.row([
                    palette.prefixes.text(&block.prefix).into(),
                    block.bits.into(),
                    format!("2^{}", block.bits).into(),
                    number::percent(self.share_of(block)).into(),
                ]);
            }
            text.push_str(&table.render(palette));
        }
        let hidden = self.count.saturating_sub(self.blocks.len());
        if hidden > 0 {
            text.push_str(&format!(
                "and {}, not larger; -n {} shows all\n",
                number::counted(hidden, "block"),
                self.count
            ));
        }
        let least =
            if args.at_least == 0 { String::new() } else { format!(" of at least 2^{} identifiers", args.at_least) };
        let blocks = number::counted(self.count, "free block");
        text.push_str(&format!("{blocks}{least}: {} of the space\n", number::percent(self.share)));
        if let Some(suffix) = args.suffix {
            text.push_str(&choice_text(suffix, args, self.choice.as_ref(), palette));
        }
        text
    }
}

/// Returns a line that says where `kent region create` would put the region, or what to do if no block is large enough.
fn choice_text(suffix: u32, args: &FreeArgs, choice: Option<&PlaceOfRegion>, palette: Palette) -> String {
    let zone = args.zone.map(|zone| format!(" --zone {zone}")).unwrap_or_default();
    let space = names::space_option(&args.space);
    let create = format!("kent region create NAME --suffix {suffix}{zone}{space}");
    match choice {
        Some(choice) => {
            let (prefix, block) = (palette.prefixes.text(&choice.prefix), palette.prefixes.text(&choice.block));
            let zone = number::counted(choice.zone_bits, "bit");
            format!("{create} would take the prefix {prefix} with a zone of {zone}, in the block {block}\n")
        }
        None => format!(
            "{create} would find no free block; with --plan it shows which regions could be split to free one\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command, DaemonCommand, SpaceCommand};
    use clap::Parser;

    fn args(line: &str) -> FreeArgs {
        let cli =
            Cli::try_parse_from(["kent", "space", "free"].into_iter().chain(line.split_whitespace())).expect(line);
        match cli.command {
            Command::Daemon(DaemonCommand::Space(SpaceCommand::Free(args))) => args,
            other => panic!("{other:?}"),
        }
    }

    fn found(most: usize) -> Found {
        let mut found = Found { bits: 16, blocks: Vec::new(), count: 0, share: 0.0, choice: None };
        let block = |(prefix, bits): (&str, u32)| FreeBlock { prefix: prefix.to_owned(), bits };
        found.add([("1", 15), ("001", 13), ("0001", 12)].map(block).into(), most);
        found
    }

    #[test]
    fn ok_free_blocks_for_people() {
        assert_eq!(
            found(2).render(&args("--at-least 12"), Palette::PLAIN),
            "\
PREFIX  BITS  IDENTIFIERS    SHARE
1         15         2^15  50.00 %
001       13         2^13  12.50 %
and 1 block, not larger; -n 3 shows all
3 free blocks of at least 2^12 identifiers: 68.75 % of the space
"
        );
        let empty = Found { bits: 16, blocks: Vec::new(), count: 0, share: 0.0, choice: None };
        assert_eq!(empty.render(&args(""), Palette::PLAIN), "0 free blocks: 0 % of the space\n");
    }

    #[test]
    fn err_widths_beyond_the_space() {
        for (line, is_allowed) in [
            ("parts", true),
            ("--at-least 16", true),
            ("parts --at-least 17", false),
            ("--suffix 16", true),
            ("--suffix 17", false),
            ("--suffix 10 --zone 7", false),
        ] {
            assert_eq!(check(&args(line), 16).is_ok(), is_allowed, "{line}");
        }
        let refused = check(&args("parts --at-least 99"), 16).expect_err("too wide").to_string();
        assert!(refused.contains("at most 16, not 99 (kent space free parts --at-least 16)"), "{refused}");
    }

    #[test]
    fn ok_the_place_of_a_new_region() {
        let mut found = found(0);
        found.choice = Some(PlaceOfRegion { prefix: "00010000".to_owned(), zone_bits: 1, block: "0001".to_owned() });
        let text = found.render(&args("parts --suffix 7 --zone 1"), Palette::PLAIN);
        let expected = "kent region create NAME --suffix 7 --zone 1 --space parts would take the prefix 00010000 with a zone \
                        of 1 bit, in the block 0001\n";
        assert!(text.ends_with(expected), "{text}");
        found.choice = None;
        let text = found.render(&args("--suffix 16"), Palette::PLAIN);
        assert!(text.ends_with("kent region create NAME --suffix 16 --space default would find no free block; with --plan it shows which regions could be split to free one\n"), "{text}");
    }
}
