//! The generated files of the documentation. A test fails if one of them is out of date.

use std::fs;

use anyhow::Context;

use crate::{api, figure, root};

/// Returns the generated files: their paths below the root, and their contents.
fn generated() -> anyhow::Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("docs/api.md", api::reference(&root().join("proto/proto"))?),
        ("docs/regions.svg", figure::regions()?),
        ("docs/ceiling.svg", figure::ceiling()),
    ])
}

pub(crate) fn write() -> anyhow::Result<()> {
    for (path, text) in generated()? {
        fs::write(root().join(path), text).with_context(|| format!("{path} cannot be written"))?;
        println!("{path}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_the_page_of_clients_shows_the_example_as_it_is() {
        let [page, example] = ["docs/clients.md", "client/examples/identifiers.rs"]
            .map(|path| fs::read_to_string(root().join(path)).expect(path));
        assert!(page.contains(&format!("```rust\n{example}```")), "docs/clients.md shows another example");
    }

    #[test]
    fn ok_generated_files_are_up_to_date() {
        for (path, expected) in generated().expect("generated") {
            let found = fs::read_to_string(root().join(path)).unwrap_or_default();
            assert!(found == expected, "{path} is out of date: run `cargo xtask generate`");
        }
    }
}
