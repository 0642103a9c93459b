//! Tests of all backends, and of the embedded store under crashes and damage.

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
