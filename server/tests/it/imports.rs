//! Checks that sibling modules of every crate have no import cycles.
//!
//! A module and its submodules count as one unit: a parent may use its children, and a child the items of its parent.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    fs,
    path::{Path, PathBuf},
};

use syn::{
    Attribute, ImplItemFn, Item, ItemFn, ItemImpl, ItemMod, ItemUse, MetaList, UseTree,
    buffer::{Cursor, TokenBuffer},
    visit::{self, Visit},
};

use super::crates::CRATES;

/// The maximum number of imports to follow for a path. Two modules may import one name from each other, as a type and
/// as a macro, so the search might never end without a limit.
const IMPORTS_MAX: u8 = 8;

/// A module path from the crate root, or a path as written in the source.
type Names = Vec<String>;

/// The modules of one crate.
#[derive(Default)]
struct Modules(BTreeMap<Names, Module>);

#[derive(Default)]
struct Module {
    file: PathBuf,
    /// All paths in the module, in imports and elsewhere.
    paths: BTreeSet<Names>,
    /// The paths of its imports, by the imported name.
    imports: HashMap<String, Names>,
}

/// The uses between sibling modules: user, used module, and the files and paths of each use.
type Siblings = BTreeMap<String, BTreeMap<String, BTreeSet<(PathBuf, Names)>>>;

impl Modules {
    /// The modules below `lib.rs` or `main.rs`.
    fn read(root: &Path) -> Self {
        let mut modules = Self::default();
        modules.add_file(Vec::new(), root, root.parent().expect("a file has a folder"));
        modules
    }

    /// Adds a module and its submodules, whose files are in `folder`.
    fn add_file(&mut self, name: Names, file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.add(name, file, folder, &parsed.items);
    }

    fn add(&mut self, name: Names, file: &Path, folder: &Path, items: &[Item]) {
        let mut reader = Reader::default();
        items.iter().for_each(|item| reader.visit_item(item));
        let Reader { paths, imports, below } = reader;
        self.0.insert(name.clone(), Module { file: file.to_owned(), paths, imports });
        for module in below {
            let last = module.ident.to_string();
            let (name, folder) = (longer(&name, &last), folder.join(&last));
            match &module.content {
                Some((_, items)) => self.add(name, file, &folder, items),
                None => self.add_file(name, &folder.with_extension("rs"), &folder),
            }
        }
    }

    /// The modules to which a path in the module `here` resolves: more than one if the path uses an import.
    fn targets(&self, here: &[String], path: &[String], imports_left: u8) -> Vec<Names> {
        let (mut at, mut rest) = match path.first().map(String::as_str) {
            Some("crate") => (Vec::new(), &path[1..]),
            Some("self") => (here.to_vec(), &path[1..]),
            Some("super") => (here.to_vec(), path),
            Some(name) if self.has(here, name) || self.import(here, name).is_some() => (here.to_vec(), path),
            _ => return Vec::new(),
        };
        while let Some((name, after)) = rest.split_first() {
            match name.as_str() {
                "super" => drop(at.pop()),
                name if self.has(&at, name) => at.push(name.to_owned()),
                name => {
                    let import = self.import(&at, name).filter(|_| imports_left > 0);
                    let further = import.map(|import| self.targets(&at, &[import, after].concat(), imports_left - 1));
                    return [vec![at], further.unwrap_or_default()].concat();
                }
            }
            rest = after;
        }
        vec![at]
    }

    fn has(&self, parent: &[String], name: &str) -> bool {
        self.0.contains_key(&longer(parent, name))
    }

    /// The path that a module imports under a name. The name of an external crate resolves to nothing.
    fn import(&self, module: &[String], name: &str) -> Option<&[String]> {
        let import = self.0.get(module)?.imports.get(name)?;
        (import.first().map(String::as_str) != Some(name)).then_some(import)
    }

    /// The uses between sibling modules, by parent module.
    fn siblings(&self) -> BTreeMap<Names, Siblings> {
        let mut levels: BTreeMap<Names, Siblings> = BTreeMap::new();
        for (here, module) in &self.0 {
            for path in &module.paths {
                for target in self.targets(here, path, IMPORTS_MAX) {
                    let common = here.iter().zip(&target).take_while(|(a, b)| a == b).count();
                    if let (Some(user), Some(used)) = (here.get(common), target.get(common)) {
                        let level = levels.entry(here[..common].to_vec()).or_default();
                        let uses = level.entry(user.clone()).or_default().entry(used.clone()).or_default();
                        uses.insert((module.file.clone(), path.clone()));
                    }
                }
            }
        }
        levels
    }

    /// Describes the cycles between sibling modules: for each module, the shortest cycle through it. `folder` contains
    /// the `lib.rs` or `main.rs` of the crate.
    fn cycles(&self, folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for (level, siblings) in self.siblings() {
            let folder = level.iter().fold(folder.to_owned(), |folder, name| folder.join(name));
            let mut seen = BTreeSet::new();
            for module in siblings.keys() {
                if let Some(cycle) = cycle(&siblings, module)
                    && seen.insert(cycle.iter().cloned().collect::<BTreeSet<_>>())
                {
                    found.push(describe(&folder, &siblings, &cycle));
                }
            }
        }
        found
    }
}

fn longer(names: &[String], last: &str) -> Names {
    names.iter().cloned().chain([last.to_owned()]).collect()
}

/// The modules on the shortest cycle through a module, itself first.
fn cycle(siblings: &Siblings, module: &str) -> Option<Vec<String>> {
    let mut came_from: HashMap<&str, &str> = HashMap::new();
    let mut next = VecDeque::from([module]);
    while let Some(at) = next.pop_front() {
        for used in siblings.get(at).into_iter().flat_map(BTreeMap::keys) {
            if used == module {
                let back = std::iter::successors(Some(at), |at| came_from.get(at).copied());
                let mut way: Vec<String> = back.map(str::to_owned).collect();
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(used.as_str()) {
                came_from.insert(used, at);
                next.push_back(used);
            }
        }
    }
    None
}

/// Describes a cycle as `a -> b -> a`, followed by the file and path of each use.
fn describe(folder: &Path, siblings: &Siblings, cycle: &[String]) -> String {
    let around: Vec<&String> = cycle.iter().chain(cycle.first()).collect();
    let names: Vec<&str> = around.iter().map(|name| name.as_str()).collect();
    let mut text = format!("{}: {}", folder.display(), names.join(" -> "));
    for step in around.windows(2) {
        for (file, path) in &siblings[step[0]][step[1]] {
            text += &format!("\n    {} -> {}: {} in {}", step[0], step[1], path.join("::"), file.display());
        }
    }
    text
}

/// Collects the paths, imports and submodules of a module, except those that are only for tests.
#[derive(Default)]
struct Reader {
    paths: BTreeSet<Names>,
    imports: HashMap<String, Names>,
    below: Vec<ItemMod>,
}

impl Reader {
    fn import(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &syn::Ident| match name.to_string().as_str() {
            "self" if !before.is_empty() => before.to_vec(),
            name => longer(before, name),
        };
        let (path, name) = match tree {
            UseTree::Path(path) => return self.import(&path.tree, &longer(before, &path.ident.to_string())),
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.import(tree, before)),
            UseTree::Name(name) => (with(&name.ident), None),
            UseTree::Rename(renamed) => (with(&renamed.ident), Some(renamed.rename.to_string())),
            UseTree::Glob(_) => (before.to_vec(), Some("_".to_owned())),
        };
        if let Some(name) = name.or_else(|| path.last().cloned()) {
            self.imports.insert(name, path.clone());
        }
        self.paths.insert(path);
    }

    /// Collects the paths in the tokens of a macro or an attribute, which need not be Rust syntax.
    fn tokens(&mut self, mut cursor: Cursor<'_>) {
        let mut path = Names::new();
        while !cursor.eof() {
            if let Some((name, after)) = cursor.ident() {
                path.push(name.to_string());
                cursor = after;
                match colons(cursor) {
                    Some(after) => cursor = after,
                    None => self.path(std::mem::take(&mut path)),
                }
                continue;
            }
            self.path(std::mem::take(&mut path));
            cursor = match cursor.any_group() {
                Some((inside, .., after)) => {
                    self.tokens(inside);
                    after
                }
                None => cursor.token_tree().expect("there is more").1,
            };
        }
        self.path(path);
    }

    /// Adds a path. A single name refers to the module itself or to an import.
    fn path(&mut self, path: Names) {
        if path.len() > 1 {
            self.paths.insert(path);
        }
    }
}

fn colons(cursor: Cursor<'_>) -> Option<Cursor<'_>> {
    let (first, after) = cursor.punct()?;
    let (second, after) = after.punct()?;
    (first.as_char() == ':' && second.as_char() == ':').then_some(after)
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|what| what == "test")
    })
}

impl<'a> Visit<'a> for Reader {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if !is_for_tests(&item.attrs) {
            self.below.push(item.clone());
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.import(&item.tree, &[]);
        }
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'a syn::Macro) {
        self.visit_path(&called.path);
        self.tokens(TokenBuffer::new2(called.tokens.clone()).begin());
    }

    fn visit_meta_list(&mut self, list: &'a MetaList) {
        self.tokens(TokenBuffer::new2(list.tokens.clone()).begin());
    }
}

#[test]
fn ok_there_are_no_import_cycles() {
    let mut cycles = Vec::new();
    for (_, home, _) in CRATES {
        let folder = Path::new(home).join("src");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&folder);
        let roots: Vec<_> =
            ["lib.rs", "main.rs"].map(|root| source.join(root)).into_iter().filter(|root| root.exists()).collect();
        assert!(!roots.is_empty(), "{home} has no root");
        for root in roots {
            cycles.extend(Modules::read(&root).cycles(&folder));
        }
    }
    assert!(cycles.is_empty(), "{} import cycles:\n{}", cycles.len(), cycles.join("\n"));
}

/// The cycles in a crate with these files.
fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    }
    let cycles = Modules::read(&folder.path().join("lib.rs")).cycles(Path::new("src"));
    cycles.iter().map(|cycle| cycle.lines().next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn err_cycles_are_found_in_every_syntax() {
    let b = ("b.rs", "use super::a::{self as other, A};");
    for a in [
        "use crate::{std, b::{B, c::C}};",
        "fn f() -> crate::b::B { g() }",
        "fn f() { self::super::b::g() }",
        "fn f() { assert!(1 == vec![super::b::g(1)].len()) }",
        "#[derive(clap::Parser)] struct A { #[arg(value_parser = crate::b::parse)] a: u8 }",
        "impl A { #[cfg(unix)] fn f() { crate::b::g() } }",
        "use crate as whole; fn f() { whole::b::g() }",
        "use super::again;",
        "use crate::again::B;",
        "pub(crate) mod inner { use super::super::b::B; }",
    ] {
        let root = ("lib.rs", "mod a; mod b; use b as again;");
        assert_eq!(cycles_of(&[root, ("a.rs", a), b]), ["src: a -> b -> a"], "{a}");
    }
}

#[test]
fn err_longer_and_nested_cycles_are_found() {
    let root = ("lib.rs", "mod a; mod b; mod c;");
    let files = [root, ("a.rs", "use crate::b::B;"), ("b.rs", "use crate::c::C;"), ("c.rs", "use crate::a::A;")];
    assert_eq!(cycles_of(&files), ["src: a -> b -> c -> a"]);
    let below = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod b; mod c;"),
        ("a/b.rs", "use super::c;"),
        ("a/c.rs", "use crate::a::b::B;"),
    ];
    assert_eq!(cycles_of(&below), ["src/a: b -> c -> b"]);
    let subtree =
        [("lib.rs", "mod a; mod b;"), ("a.rs", "mod c;"), ("a/c.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;")];
    assert_eq!(cycles_of(&subtree), ["src: a -> b -> a"]);
}

#[test]
fn ok_parents_children_tests_and_other_crates_are_not_cycles() {
    let root = ("lib.rs", "mod a; mod b; pub use a::A; pub use serde; struct Whole;");
    let b = ("b.rs", "use crate::{a::A, Whole}; use tokio::b;");
    for a in [
        "mod c; use c::C; use crate::Whole; use super::{A, serde};",
        "#[cfg(test)] use crate::b::B;",
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "impl A { #[cfg(test)] fn f() { crate::b::g() } }",
        "use tokio::b; fn f() { b::g(); other::b::B }",
        "/// See [`crate::b::B`].\nstruct A;",
    ] {
        let files = [root, ("a.rs", a), ("a/c.rs", "use super::A; use crate::a::A as Again;"), b];
        assert_eq!(cycles_of(&files), Vec::<String>::new(), "{a}");
    }
}
