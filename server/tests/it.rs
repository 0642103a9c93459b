//! End-to-end tests of the daemon: real processes, real sockets, and the embedded store on a real disk.

mod it {
    mod allocate;
    mod archive;
    mod backup;
    mod chaos;
    mod client;
    mod clocks;
    mod cluster;
    mod completion;
    mod confirm;
    mod crash;
    mod crates;
    mod disk;
    mod docs;
    mod doctor;
    mod edits;
    mod exchange;
    mod harness;
    mod hostile;
    mod imports;
    mod large;
    mod listing;
    mod metrics;
    mod migrate;
    mod mistakes;
    mod operator;
    mod paper;
    mod pipes;
    mod promises;
    mod proxy;
    mod python;
    mod raw;
    mod refusals;
    mod restore;
    mod retention;
    mod seals;
    mod shutdown;
    mod silence;
    mod start;
    mod suggestions;
    mod tables;
    mod transfer;
    mod watch;
    mod wire;
    mod witness;
}
