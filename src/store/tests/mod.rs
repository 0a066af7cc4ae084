//! The store's behaviour and its faults.
