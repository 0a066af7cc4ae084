//! What every floor stands on.
//!
//! | file | what it knows |
//! |---|---|
//! | `descriptor` | descriptors that a program may close |
//! | `memory` | allocations that may fail, and their budgets |
//! | `signals` | writes that raise no signal |
//! | `owner` | what root makes in a user's folder |
//! | `thread` | how threads of our own are started |
//! | `timer` | how long a thread of the program may be held up |
//! | `util` | random names, the time, locks |

pub mod descriptor;
pub mod memory;
pub mod owner;
pub mod signals;
pub mod thread;
pub(crate) mod timer;
pub mod util;
