//! Runs every fuzz target on its corpus and on mutations of the corpus, as part of the ordinary tests.

use std::{fs, path::Path};

use kent_fuzz::{TARGETS, mutate};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// The number of mutations of each file.
const MUTATIONS: usize = 2000;

/// A fixed seed, so that every run tests the same mutations.
const SEED: u64 = 7;

#[test]
fn ok_the_corpus_and_mutations_of_it() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in TARGETS {
        let files = fs::read_dir(corpus.join(name)).unwrap_or_else(|error| panic!("{name} has no corpus: {error}"));
        let mut seeds: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        seeds.sort();
        let seeds: Vec<Vec<u8>> = seeds.iter().map(|path| fs::read(path).expect("readable")).collect();
        assert!(!seeds.is_empty(), "{name} has no corpus");
        let mut rng = StdRng::seed_from_u64(SEED);
        for seed in &seeds {
            target(seed);
            for _ in 0..MUTATIONS {
                let other = &seeds[rng.random_range(0..seeds.len())];
                target(&mutate(seed, other, &mut rng));
            }
        }
    }
}
