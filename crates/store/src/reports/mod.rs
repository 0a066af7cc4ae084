//! What processes did.
//!
//! | file | what it knows |
//! |---|---|
//! | `model` | the report of one process |
//! | `runs` | reports as files |
//! | `totals` | what they add up to |

pub mod model;
pub mod runs;
pub mod totals;
