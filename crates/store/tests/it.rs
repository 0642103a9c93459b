//! What every store promises, and what only a directory on a disk can show.

#[cfg(test)]
mod it {
    mod conformance;
    mod damage;
    mod etcd;
    mod exchanged;
    mod lost;
    mod memory;
    mod power;
    mod restart;
}
